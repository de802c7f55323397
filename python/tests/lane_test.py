# SPDX-License-Identifier: Apache-2.0
"""Calls by a lane: the bits of gRPC's, what a lane does not carry, and its end."""

import contextlib
import os
import signal
import tempfile
import threading
import time
import unittest

import numpy as np
import qgemm
from qgemm import _lane, _lane_parts

from support import K, M, N, ScriptedService, lane_server


class LaneTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with contextlib.ExitStack() as stack:
            cls.server = stack.enter_context(lane_server())
            cls.lane = stack.enter_context(cls.server.connect(lane="required"))
            cls.grpc = stack.enter_context(cls.server.connect(lane="off"))
            cls.addClassCleanup(stack.pop_all().close)

    def setUp(self):
        self.rng = np.random.default_rng(1)
        self.x = self.rng.standard_normal((M, K)).astype(np.float16)

    def load(self, name="layer", format="kbit4", n=N):
        w = self.rng.standard_normal((n, K)).astype(np.float32)
        self.grpc.load(name, w, format=format)

    def lane_calls(self):
        return self.lane._lane.lane()._published

    def assert_by_lane(self, call):
        before = self.lane_calls()
        result = call(self.lane)
        self.assertEqual(self.lane_calls(), before + 1)
        expected = call(self.grpc)
        self.assertEqual(result.dtype, expected.dtype)
        np.testing.assert_array_equal(result, expected)

    def test_every_format_has_the_bits_of_grpc(self):
        for format in ("kbit2", "kbit3", "kbit4", "kbit5", "q4_0", "ternary", "int4",
                       "bf16"):
            self.load(format, format)
            for x in (self.x, self.x.astype(np.float32), self.x[0]):
                self.assert_by_lane(lambda client: client.gemm(format, x))
            self.assert_by_lane(
                lambda client: client.gemm(format, self.x, dtype="bf16"))

    def test_options_are_those_of_a_call(self):
        self.load("q", "q4_0")
        self.assert_by_lane(lambda client: client.gemm(
            "q", self.x, mode="A8", priority="high", client_id="one", timeout=30))
        self.assert_by_lane(lambda client: client.gemm(
            "q", self.x.astype(np.float32), rounding="fp16"))

    def test_a_program_has_the_bits_of_grpc(self):
        self.load("up")
        p = qgemm.Program("bf16")
        p.output(p.silu(p.gemm(p.input(K, "x", dtype="fp32"), "up")))
        loaded = self.grpc.load_program("program", p)
        before = self.lane_calls()
        result = self.lane.run(loaded, self.x)
        self.assertEqual(self.lane_calls(), before + 1)
        np.testing.assert_array_equal(result, self.grpc.run(loaded, self.x))

    def test_results_go_where_the_caller_says_with_their_times(self):
        self.load()
        out = np.zeros((M, N), np.float32)
        timings = qgemm.Timings()
        self.assertIs(self.lane.gemm("layer", self.x, out=out, timings=timings), out)
        np.testing.assert_array_equal(
            out, self.grpc.gemm("layer", self.x, dtype="fp32"))
        self.assertGreater(timings.total_ns, 0)
        self.assertGreaterEqual(timings.launch_rows, M)

    def test_an_answer_that_takes_long_is_no_end_of_the_lane(self):
        """Longer than a turn of a sleeper, who then looks at the socket."""
        self.load()
        lane = self.lane._lane.lane()
        self.addCleanup(setattr, _lane, "_TURN_SECONDS", _lane._TURN_SECONDS)
        self.addCleanup(setattr, _lane, "SPIN_SECONDS", _lane.SPIN_SECONDS)
        _lane._TURN_SECONDS, _lane.SPIN_SECONDS = 1e-6, 0
        for _ in range(20):
            self.assert_by_lane(lambda client: client.gemm("layer", self.x))
        self.assertIs(self.lane._lane.lane(), lane)

    def test_results_are_the_callers_own(self):
        self.load()
        first = self.lane.gemm("layer", self.x)
        kept = first.copy()
        self.lane.gemm("layer", -self.x)
        np.testing.assert_array_equal(first, kept)

    def test_what_has_no_room_goes_by_grpc(self):
        self.grpc.load("wide", np.ones((8, 2048), np.float16))
        rows = _lane.OPERAND_BYTES // (2 * 2048) + 1
        before = self.lane_calls()
        y = self.lane.gemm("wide", np.ones((rows, 2048), np.float16))
        self.assertEqual(y.shape, (rows, 8))
        self.assertEqual(self.lane_calls(), before)

    def test_names_that_change_shape_or_go_are_what_they_are_to_grpc(self):
        self.load("name")
        self.assertEqual(self.lane.gemm("name", self.x).shape, (M, N))
        self.load("name", n=2 * N)
        self.assertEqual(self.lane.gemm("name", self.x).shape, (M, 2 * N))
        self.assert_by_lane(lambda client: client.gemm("name", self.x))
        self.grpc.unload("name")
        with self.assertRaises(qgemm.NotFound):
            self.lane.gemm("name", self.x)

    def test_bad_requests_have_the_errors_of_grpc(self):
        self.load()
        for call in (lambda client: client.gemm("layer", self.x[:, :-1]),
                     lambda client: client.gemm("layer", self.x, mode="A8"),
                     lambda client: client.gemm("x" * 200, self.x),
                     lambda client: client.gemm("layer", self.x[:0])):
            with self.assertRaises(qgemm.Error) as expected:
                call(self.grpc)
            with self.assertRaises(qgemm.Error) as raised:
                call(self.lane)
            self.assertEqual(str(raised.exception), str(expected.exception))

    def test_calls_whose_time_is_over_keep_no_memory(self):
        self.grpc.load("wide", np.ones((1024, 1024), np.float16))
        x = np.ones((64, 1024), np.float16)  # longer than a call looks for its answer
        lane = self.lane._lane.lane()
        is_over = threading.Event()

        def keep_the_server_busy():
            while not is_over.is_set():
                self.lane.gemm("wide", x)

        busy = threading.Thread(target=keep_the_server_busy)
        busy.start()
        most = 0
        for _ in range(2 * _lane.SLOTS):
            with self.assertRaises(qgemm.DeadlineExceeded):
                self.lane.gemm("wide", x, timeout=1e-9)
            most = max(most, len(lane._abandoned))
        is_over.set()
        busy.join()
        self.assertGreater(most, 0)
        limit = time.monotonic() + 60
        while lane._abandoned and time.monotonic() < limit:
            self.lane.gemm("wide", x)
        self.assertEqual(len(lane._free_slots), _lane.SLOTS)
        self.assertEqual(lane._ranges.free, [(0, _lane.OPERAND_BYTES)])

    def test_threads_get_their_own_answers(self):
        self.load()
        xs = [self.rng.standard_normal((1, K)).astype(np.float16) for _ in range(6)]
        expected = [self.grpc.gemm("layer", x) for x in xs]
        wrong = []

        def work(x, y):
            for _ in range(100):
                if not np.array_equal(self.lane.gemm("layer", x), y):
                    wrong.append(x)

        threads = [threading.Thread(target=work, args=each)
                   for each in zip(xs, expected)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_a_child_of_a_fork_does_not_have_the_memory(self):
        def mappings():
            with open("/proc/self/maps", encoding="ascii") as maps:
                return maps.read().count("/memfd:")

        self.assertEqual(mappings(), 1)
        child = os.fork()
        if child == 0:
            os._exit(mappings())
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_ranges_lose_nothing(self):
        ranges = _lane_parts.Ranges(64 * 100 + 63)
        held, random = [], np.random.default_rng(3)
        for _ in range(3000):
            if held and random.random() < 0.5:
                ranges.give_back(held.pop(random.integers(len(held))))
            else:
                taken = ranges.take(int(random.integers(1, 1500)))
                if taken is not None:
                    held.append(taken)
            spans = sorted(held + ranges.free)
            self.assertEqual(sum(size for _, size in spans), 6400)
            self.assertTrue(all(sum(a) == b[0] for a, b in zip(spans, spans[1:])))
            self.assertTrue(all(sum(a) < b[0] for a, b in
                                zip(ranges.free, ranges.free[1:])))


class LaneEndTest(unittest.TestCase):
    def setUp(self):
        self.x = np.ones((M, K), np.float16)
        self.w = np.ones((N, K), np.float32)

    def test_required_without_a_lane_raises(self):
        with qgemm.serve("--backend=cpu") as server:
            with self.assertRaisesRegex(qgemm.Unavailable, "--lane_listen"):
                server.connect(lane="required")
            with server.connect() as client:
                self.assertFalse(client.has_lane)
                client.load("layer", self.w)
                self.assertEqual(client.gemm("layer", self.x).shape, (M, N))

    def test_targets_and_words_that_make_no_sense_are_refused(self):
        with ScriptedService().listening() as address:
            with self.assertRaisesRegex(ValueError, "unix:PATH"):
                qgemm.connect(address, lane="required")
            with self.assertRaisesRegex(ValueError, "auto, off or required"):
                qgemm.connect(address, lane="on")

    def test_a_path_that_nobody_listens_at_is_no_lane(self):
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/nobody"
            info = qgemm.v1.qgemm_pb2.GetServerInfoResponse(lane_path=path)
            service = ScriptedService(GetServerInfo=[info.SerializeToString()])
            with service.listening(f"unix:{folder}/grpc"):
                with qgemm.connect(f"unix:{folder}/grpc") as client:
                    self.assertFalse(client.has_lane)
                with self.assertRaisesRegex(qgemm.Unavailable, "nobody"):
                    qgemm.connect(f"unix:{folder}/grpc", lane="required")

    def test_after_a_restart_calls_go_by_a_lane_again(self):
        with tempfile.TemporaryDirectory() as folder:
            flags = ("--backend=cpu", f"--lane_listen=unix:{folder}/lane",
                     f"--listen=unix:{folder}/grpc")
            first = qgemm.serve(*flags)
            self.addCleanup(first.stop)
            with qgemm.connect(f"unix:{folder}/grpc") as client:
                client.load("layer", self.w)
                client.gemm("layer", self.x)
                self.assertTrue(client.has_lane)
                first.stop()
                with qgemm.serve(*flags):
                    client.load("layer", self.w)
                    client.gemm("layer", self.x)  # by either way
                    limit = time.monotonic() + 60
                    while not client.has_lane and time.monotonic() < limit:
                        time.sleep(0.01)
                    before = client._lane.lane()._published
                    client.gemm("layer", self.x)
                    self.assertEqual(client._lane.lane()._published, before + 1)

    def test_a_required_lane_whose_server_is_killed_is_unavailable(self):
        with lane_server() as server:
            policy = qgemm.RetryPolicy(max_attempts=1)
            with server.connect(lane="required", retry=policy) as client:
                client.load("layer", self.w)
                client.gemm("layer", self.x)
                server._process.kill()
                server._process.wait()
                with self.assertRaises(qgemm.Unavailable):
                    client.gemm("layer", self.x)

    def end_of_a_waiting_call(self, end):
        """What a call raises that waits for a stopped server when `end` is called,
        with the server and the client."""
        raised = []
        with lane_server() as server:
            policy = qgemm.RetryPolicy(max_attempts=1)
            with server.connect(lane="required", retry=policy) as client:
                client.load("layer", self.w)
                client.gemm("layer", self.x)
                lane = client._lane.lane()
                self.addCleanup(self.go_on, server)
                self.stop(server)

                def call():
                    try:
                        client.gemm("layer", self.x)
                    except qgemm.Error as error:
                        raised.append(type(error))

                thread = threading.Thread(target=call)
                thread.start()
                while not any(lane._words[lane._word_of(slot) + _lane._SLEEPS]
                              for slot in range(_lane.SLOTS)):
                    time.sleep(0.001)
                end(server, client)
                thread.join()
                self.go_on(server)
        return raised

    @staticmethod
    def stop(server):
        """Returns once every thread has stopped: until then one may still answer."""
        server._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, server._process.pid, os.WSTOPPED | os.WNOWAIT)

    @staticmethod
    def go_on(server):
        with contextlib.suppress(ProcessLookupError):
            server._process.send_signal(signal.SIGCONT)

    def test_a_call_that_waits_ends_with_its_client(self):
        self.assertEqual([qgemm.Cancelled], self.end_of_a_waiting_call(
            lambda _, client: client.close()))

    def test_a_call_that_waits_ends_with_its_server(self):
        self.assertEqual([qgemm.Unavailable], self.end_of_a_waiting_call(
            lambda server, _: server._process.kill()))

    def test_an_answer_that_comes_too_late_is_not_anothers(self):
        with lane_server() as server, server.connect(
                lane="required", retry=qgemm.RetryPolicy(max_attempts=1)) as client:
            client.load("layer", self.w)
            client.load("wide", np.ones((2 * N, K), np.float32))
            lane = client._lane.lane()
            lane._socket._socket.settimeout(0.1)
            self.addCleanup(self.go_on, server)
            self.stop(server)
            with self.assertRaises(qgemm.Unavailable):
                client.gemm("wide", self.x)
            self.go_on(server)
            self.assertTrue(lane.has_ended)
            limit = time.monotonic() + 60
            while not client.has_lane and time.monotonic() < limit:
                time.sleep(0.01)
            self.assertIsNot(lane, client._lane.lane())
            self.assertEqual((M, N), client.gemm("layer", self.x).shape)

    def test_a_closed_client_is_cancelled(self):
        with lane_server() as server:
            client = server.connect(lane="required")
            client.load("layer", self.w)
            client.close()
            with self.assertRaises(qgemm.Cancelled):
                client.gemm("layer", self.x)


if __name__ == "__main__":
    unittest.main()
