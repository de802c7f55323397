# SPDX-License-Identifier: Apache-2.0
"""Retries, tokens, several servers and their choice, with services that fail on
demand; and servers that the package starts."""

import asyncio
import concurrent.futures
import contextlib
import os
import socket
import sys
import tempfile
import threading
import unittest
from unittest import mock

import grpc
import numpy as np
import qgemm
from qgemm import _connection
from qgemm.v1 import qgemm_pb2 as pb

from support import Refusal, ScriptedService, ServedTest

FULL = grpc.StatusCode.RESOURCE_EXHAUSTED
DOWN = grpc.StatusCode.UNAVAILABLE
X = np.ones((1, 4), np.float32)
ANSWER = pb.GemmResponse(c=np.ones(3, np.float32).tobytes()).SerializeToString()


class Scripted(unittest.TestCase):
    def setUp(self):
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)
        self.pauses = []
        self.stack.enter_context(mock.patch("time.sleep", self.pauses.append))
        self.stack.enter_context(mock.patch("random.random", lambda: 0.5))
        self.stack.enter_context(mock.patch("random.uniform", lambda a, b: 0.0))

    def serve(self, **answers):
        service = ScriptedService(**answers)
        service.address = self.stack.enter_context(service.listening())
        return service

    def connect(self, *services, **options):
        return self.stack.enter_context(qgemm.connect(
            [service.address for service in services], **options))


class RetriesTest(Scripted):
    def test_the_servers_time_is_honoured(self):
        service = self.serve(Gemm=[Refusal(FULL, 100_000_000), ANSWER])
        y = self.connect(service).gemm("w", X)
        np.testing.assert_array_equal(y, np.ones((1, 3), np.float32))
        self.assertEqual(len(self.pauses), 1)
        self.assertAlmostEqual(self.pauses[0], 0.1 * 1.1)

    def test_backoff_doubles_and_ends(self):
        service = self.serve(Gemm=[Refusal(DOWN)])
        with self.assertRaises(qgemm.Unavailable):
            self.connect(service).gemm("w", X)
        self.assertEqual(service.count("Gemm"), 5)
        np.testing.assert_allclose(self.pauses, [0.05, 0.1, 0.2, 0.4])

    def test_several_layers_are_retried_each(self):
        service = self.serve(Gemm=[Refusal(FULL, 1000), ANSWER])
        answers = self.connect(service).gemm(["a", "b", "c"], X)
        self.assertEqual([y.shape for y in answers], [(1, 3)] * 3)
        self.assertEqual(service.count("Gemm"), 4)

    def test_what_is_not_retried(self):
        for refusal, kind in ((Refusal(FULL), qgemm.ResourceExhausted),
                              (Refusal(grpc.StatusCode.NOT_FOUND), qgemm.NotFound),
                              (Refusal(grpc.StatusCode.INTERNAL), qgemm.Error)):
            service = self.serve(Gemm=[refusal])
            with self.assertRaises(kind) as raised:
                self.connect(service).gemm("w", X)
            self.assertEqual(service.count("Gemm"), 1)
            self.assertEqual(raised.exception.field, "m")

    def test_never_past_the_deadline(self):
        service = self.serve(Gemm=[Refusal(FULL, 200_000_000)])
        with self.assertRaises(qgemm.ResourceExhausted) as raised:
            self.connect(service).gemm("w", X, timeout=0.15)
        self.assertEqual(self.pauses, [])
        self.assertAlmostEqual(raised.exception.retry_after, 0.2)

    def test_a_policy_may_say_otherwise(self):
        service = self.serve(Gemm=[Refusal(FULL, 1000), ANSWER])
        policy = qgemm.RetryPolicy(honour_retry_info=False)
        with self.assertRaises(qgemm.ResourceExhausted):
            self.connect(service, retry=policy).gemm("w", X)
        service = self.serve(Gemm=[Refusal(FULL, 200_000_000), ANSWER])
        policy = qgemm.RetryPolicy(max_retry_delay=0.1)
        with self.assertRaises(qgemm.ResourceExhausted):
            self.connect(service, retry=policy, timeout=None).gemm("w", X)

    def test_closing_a_client_ends_its_calls(self):
        taken, release = threading.Event(), threading.Event()
        self.addCleanup(release.set)

        class Held(Refusal):
            def end(self, context):
                taken.set()
                release.wait()

        client = self.connect(self.serve(Gemm=[Held(DOWN)]))
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            call = pool.submit(client.gemm, "w", X)
            taken.wait()
            client.close()
            with self.assertRaisesRegex(qgemm.Cancelled, "closed"):
                call.result()
            release.set()

    @unittest.skipIf(sys.version_info < (3, 11), "needs Task.cancelling")
    def test_closing_an_asyncio_client_ends_its_calls(self):
        taken, release = threading.Semaphore(0), threading.Event()
        self.addCleanup(release.set)

        class Held(Refusal):
            def end(self, context):
                taken.release()
                release.wait()

        async def outcomes(end):
            """Of a product and an upload that the server holds, after `end`."""
            client = await qgemm.aio.connect(service.address)
            tasks = [asyncio.create_task(client.gemm("w", X)),
                     asyncio.create_task(client.load("w", X))]
            for _ in tasks:
                await asyncio.to_thread(taken.acquire)
            await end(client, tasks)
            return [type(error) for error in await asyncio.gather(
                *tasks, return_exceptions=True)]

        async def close(client, tasks):
            await client.close()

        async def cancel_and_close(client, tasks):
            for task in tasks:
                task.cancel()
            await client.close()

        service = self.serve(Gemm=[Held(DOWN)], LoadWeights=[Held(DOWN)])
        self.assertEqual(asyncio.run(outcomes(close)), [qgemm.Cancelled] * 2)
        self.assertEqual(asyncio.run(outcomes(cancel_and_close)),
                         [asyncio.CancelledError] * 2)

    def test_an_operand_beyond_the_limit_says_what_to_do(self):
        client = self.connect(self.serve(Gemm=[ANSWER]), max_message_bytes=4096)
        with self.assertRaisesRegex(qgemm.ResourceExhausted, r"client\.stream"):
            client.gemm("w", np.ones((1024, 4), np.float32))

    def test_an_answer_that_does_not_fit_is_an_error(self):
        service = self.serve(Gemm=[b"\xff\xff"])
        with self.assertRaisesRegex(ValueError, "the message"):
            self.connect(service).gemm("w", X)


def connect_aio(targets, **options):
    """As qgemm.connect, by asyncio's client, which is closed again."""
    async def work():
        async with await qgemm.aio.connect(targets, **options) as client:
            return client

    return asyncio.run(work())


class SeveralServersTest(Scripted):
    def hung(self):
        """The address of a server that takes connections and stays silent."""
        listener = self.stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        return "127.0.0.1:%d" % listener.getsockname()[1]

    def test_a_silent_server_leaves_time_for_the_others(self):
        good, hung = self.serve().address, self.hung()
        for connect in (qgemm.connect, connect_aio):
            for targets in ([good, hung], [hung, good], [hung, self.hung(), good]):
                with self.subTest(connect=connect.__name__, targets=targets):
                    connect(targets, connect_timeout=2.0)

    def test_servers_that_are_all_silent_are_unavailable(self):
        for connect in (qgemm.connect, connect_aio):
            for targets in ([self.hung()], [self.hung(), self.hung()]):
                with self.subTest(connect=connect.__name__, targets=targets):
                    with self.assertRaisesRegex(qgemm.Unavailable, "answers"):
                        connect(targets, connect_timeout=0.2)

    def test_probes_share_the_time(self):
        pool = _connection.Pool("a:1,b:1,c:1", _connection.Options(), grpc)
        with mock.patch("time.monotonic", lambda: 100.0):
            probes = _connection.Probes(pool, 12.0)
            self.assertEqual([probes.next_timeout() for _ in range(7)],
                             [1.0] * 3 + [2.0] * 3 + [4.0])
            probes = _connection.Probes(pool, 1.5)
            self.assertEqual(probes.next_timeout(), 0.5)

    def test_calls_are_divided(self):
        services = [self.serve(Gemm=[ANSWER]) for _ in range(3)]
        client = self.connect(*services)
        for _ in range(9):
            client.gemm("w", X)
        self.assertEqual([service.count("Gemm") for service in services], [3] * 3)

    def test_another_server_is_asked_at_once(self):
        broken = self.serve(Gemm=[Refusal(DOWN)])
        whole = self.serve(Gemm=[ANSWER])
        client = self.connect(broken, whole)
        for _ in range(6):
            client.gemm("w", X)
        self.assertEqual((broken.count("Gemm"), whole.count("Gemm")), (1, 6))
        self.assertEqual(self.pauses, [0.0])

    def test_names_go_to_every_server(self):
        freed = pb.UnloadWeightsResponse(freed=True).SerializeToString()
        services = [self.serve(UnloadWeights=[answer]) for answer in (
            Refusal(grpc.StatusCode.NOT_FOUND), freed)]
        self.assertTrue(self.connect(*services).unload("w"))
        services.append(self.serve(
            UnloadWeights=[Refusal(grpc.StatusCode.PERMISSION_DENIED)]))
        with self.assertRaises(qgemm.PermissionDenied) as raised:
            self.connect(*services).unload("w")
        self.assertIn(services[2].address, raised.exception.message)
        self.assertNotIn(services[0].address, raised.exception.message)
        self.assertEqual([s.count("UnloadWeights") for s in services], [2, 2, 1])

    def test_the_one_with_the_fewest_rows_is_taken(self):
        pool = _connection.Pool("a:1,b:1", _connection.Options(), grpc)
        first = pool.begin(5, set())
        second = pool.begin(3, set())
        self.assertIsNot(first, second)
        self.assertIs(pool.begin(1, set()), second)
        pool.end(first, 5)
        self.assertIs(pool.begin(1, set()), first)
        self.assertIs(pool.begin(1, {first}), second)


class TokenTest(Scripted):
    def bearer(self, service):
        return service.metadata[-1].get("authorization")

    def test_a_token_goes_with_each_call(self):
        service = self.serve(Gemm=[ANSWER])
        self.connect(service).gemm("w", X)
        self.assertIsNone(self.bearer(service))
        self.connect(service, token="secret").gemm("w", X)
        self.assertEqual(self.bearer(service), "Bearer secret")

    def test_a_file_is_read_again(self):
        service = self.serve(Gemm=[ANSWER])
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "token")

            def write(text):
                with open(path, "w", encoding="ascii") as file:
                    file.write(text)

            write("one\n")
            with mock.patch.object(_connection, "TOKEN_REFRESH_SECONDS", 0.0):
                client = self.connect(service, token_file=path)
                for text, expected in (("one", "one"), ("two", "two"), ("", "two")):
                    write(text)
                    client.gemm("w", X)
                    self.assertEqual(self.bearer(service), f"Bearer {expected}")
                os.remove(path)
                client.gemm("w", X)
                self.assertEqual(self.bearer(service), "Bearer two")

    def test_a_token_does_not_leave_in_the_clear(self):
        options = _connection.Options(token=_connection.Token("secret", None))
        for target in ("unix:/s", "localhost:1", "127.0.0.9:1", "[::1]:1",
                       "tls:gpu.corp:1"):
            _connection.Pool(target, options, grpc)
        for target in ("gpu.corp:1", "10.0.0.1:1", "dns:///gpu.corp:1"):
            with self.assertRaisesRegex(ValueError, "a token goes by TLS"):
                _connection.Pool(target, options, grpc)

    def test_bad_arguments_of_connect(self):
        for targets, options, words in (
                ("nowhere", {}, "'nowhere'"), ("unix:", {}, "'unix:'"), ([], {}, "no"),
                ("a:1", {"token": "a", "token_file": "b"}, "both"),
                ("a:1", {"token": " "}, "empty"),
                ("a:1", {"tls": qgemm.Tls(key=b"k")}, "go together")):
            with self.assertRaisesRegex(ValueError, words):
                qgemm.connect(targets, **options)


class ServeTest(ServedTest):
    def test_a_server_stops_cleanly_and_leaves_nothing(self):
        with qgemm.serve("--backend=cpu") as server:
            folder = os.path.dirname(server.address[len("unix:"):])
            self.assertTrue(os.path.exists(folder))
            server.connect().load("a", self.w)
            self.assertIn("serving", server.log)
            self.assertEqual(server.stop(), 0)
        self.assertFalse(os.path.exists(folder))

    def test_a_server_that_does_not_start_says_why(self):
        with self.assertRaisesRegex(RuntimeError, "(?s)ended with .*no_such_flag"):
            qgemm.serve("--no_such_flag")
        with mock.patch.dict(os.environ, PATH="", QGEMM_SERVER_BINARY=""):
            with self.assertRaisesRegex(FileNotFoundError, "qgemm_server"):
                qgemm.serve()

    def test_nobody_there(self):
        with self.assertRaises(qgemm.Unavailable):
            qgemm.connect("unix:/nobody/there", connect_timeout=0.1)

    def test_a_closed_client_says_so(self):
        client = self.server.connect()
        client.close()
        with self.assertRaisesRegex(qgemm.Cancelled, "closed"):
            client.info()


if __name__ == "__main__":
    unittest.main()
