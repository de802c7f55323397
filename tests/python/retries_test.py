# SPDX-License-Identifier: Apache-2.0
"""The service config of docs/client.md, by which a stock client makes its calls
again: with servers that are killed and started anew."""

import contextlib
import json
import os
import re
import threading
import unittest

import grpc
from grpc_channelz.v1 import channelz_pb2, channelz_pb2_grpc
from qgemm.v1 import debug_pb2, debug_pb2_grpc
from qgemm.v1 import qgemm_pb2 as pb
from qgemm.v1 import qgemm_pb2_grpc

import wire
from end_to_end import SERVER_BINARY
from server_process import ServerProcess

DOCUMENT = os.path.join(os.path.dirname(__file__), "../../docs/client.md")
CALL_LIMIT_S = 120
LARGE = 1 << 20  # bytes, beyond what gRPC keeps for retries unless told to


def documented():
    """The service config and the bytes to keep of a call, as the document has
    them."""
    with open(DOCUMENT, encoding="utf-8") as file:
        text = file.read()
    config = re.search(r"```json\n(\{\s*\"methodConfig\".*?)```", text, re.DOTALL)
    kept = re.search(r'\("(grpc\.per_rpc_retry_buffer_size)", ([^)]*)\)', text)
    base, shift = kept[2].split("<<")
    return config[1], (kept[1], int(base) << int(shift))


CONFIG, KEPT_BYTES = documented()


def channel_to(address, *options):
    """A stock channel that reconnects as soon as gRPC allows."""
    return grpc.insecure_channel(address, options=[
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.max_send_message_length", 64 << 20),
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 100), *options])


def start(address="127.0.0.1:0"):
    return ServerProcess(SERVER_BINARY, "--enable_freeze", "--channelz=on",
                         address=address)


def gemm_in_flight(channel, payload_bytes=64):
    """A call that its server, which is frozen, has taken and does not answer."""
    stub = qgemm_pb2_grpc.QgemmStub(channel)
    k = 32
    return stub.Gemm.future(
        pb.GemmRequest(weights="layer", m=payload_bytes // (2 * k),
                       a_type=pb.FLOAT_TYPE_FP16, a=bytes(payload_bytes)),
        timeout=CALL_LIMIT_S)


def upload(channel):
    """32 by 32 zeros."""
    dense = pb.DenseFormat(type=pb.FLOAT_TYPE_FP16)
    header = pb.WeightsHeader(name="layer", n=32, k=32, dense=dense)
    wire.upload(qgemm_pb2_grpc.QgemmStub(channel), header,
                [("codes", bytes(2 * 32 * 32))])


def freeze(channel):
    debug_pb2_grpc.QgemmDebugStub(channel).Freeze(
        debug_pb2.FreezeRequest(duration_ns=60 * 10**9), timeout=CALL_LIMIT_S)


def await_in_flight(channel, count):
    """Returns once that many calls, beside the one that asks, have not ended."""
    stub = channelz_pb2_grpc.ChannelzStub(channel)
    while True:
        answer = stub.GetServers(channelz_pb2.GetServersRequest(),
                                 timeout=CALL_LIMIT_S)
        data = answer.server[0].data
        running = (data.calls_started - data.calls_succeeded -
                   data.calls_failed)
        if running > count:
            return


class RetriesTest(unittest.TestCase):
    def setUp(self):
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)
        self.server = self.stack.enter_context(start())

    def open(self, *options):
        return self.stack.enter_context(
            channel_to(self.server.address, *options))

    def restart(self):
        """Kills the server and starts one on the same port."""
        address = self.server.address
        self.server.kill()
        self.server = self.stack.enter_context(start(address))

    def end_of_call_over_a_restart(self, *options, payload_bytes=64):
        """The status of a Gemm whose server is killed, in a server without
        weights."""
        control = self.open()
        upload(control)
        freeze(control)
        call = gemm_in_flight(self.open(*options), payload_bytes)
        await_in_flight(control, 1)
        self.restart()
        return call.code()

    def test_the_document_is_a_service_config(self):
        config = json.loads(CONFIG)
        service = pb.DESCRIPTOR.services_by_name["Qgemm"]
        named = [name["method"] for method in config["methodConfig"]
                 for name in method["name"]]
        for name in named:
            method = service.methods_by_name[name]
            self.assertNotIn("GemmStream", name)
            self.assertFalse(method.client_streaming, name)
        self.assertIn("Gemm", named)
        self.assertIn("retryThrottling", config)

    def test_no_call_fails_while_the_server_is_started_anew(self):
        stub = qgemm_pb2_grpc.QgemmStub(
            self.open(("grpc.service_config", CONFIG)))
        answered, failures = [0], []
        changed = threading.Condition()
        stopped = threading.Event()

        def call_on():
            while not stopped.is_set():
                try:
                    stub.GetServerInfo(pb.GetServerInfoRequest(),
                                       timeout=CALL_LIMIT_S)
                except grpc.RpcError as error:
                    failures.append(error)
                    return
                finally:
                    with changed:
                        answered[0] += 1
                        changed.notify()

        def await_answers(count):
            with changed:
                most = answered[0] + count
                changed.wait_for(lambda: answered[0] >= most or failures)

        caller = threading.Thread(target=call_on)
        caller.start()
        for _ in range(3):
            await_answers(100)
            self.restart()
        await_answers(100)
        stopped.set()
        caller.join()
        self.assertEqual(failures, [])

    def test_a_call_in_flight_is_made_again(self):
        code = self.end_of_call_over_a_restart(
            ("grpc.service_config", CONFIG))
        self.assertEqual(code, grpc.StatusCode.NOT_FOUND)  # by the new server

    def test_without_the_config_it_is_not(self):
        self.assertEqual(self.end_of_call_over_a_restart(),
                         grpc.StatusCode.UNAVAILABLE)

    def test_a_large_call_is_made_again_if_gRPC_keeps_it(self):
        code = self.end_of_call_over_a_restart(
            ("grpc.service_config", CONFIG), KEPT_BYTES, payload_bytes=LARGE)
        self.assertEqual(code, grpc.StatusCode.NOT_FOUND)

    def test_a_large_call_is_not_kept_by_default(self):
        code = self.end_of_call_over_a_restart(
            ("grpc.service_config", CONFIG), payload_bytes=LARGE)
        self.assertEqual(code, grpc.StatusCode.UNAVAILABLE)

    def test_a_stream_ends_and_another_one_is_opened(self):
        stub = qgemm_pb2_grpc.QgemmStub(
            self.open(("grpc.service_config", CONFIG)))
        asked = threading.Event()
        self.addCleanup(asked.set)

        def requests():
            yield pb.GemmStreamRequest(
                request_id=1, open=pb.GemmStreamOpen(gemm=pb.GemmRequest(
                    weights="nobody", m=1, a_type=pb.FLOAT_TYPE_FP16)))
            asked.wait()

        answers = stub.GemmStream(requests(), timeout=CALL_LIMIT_S)
        self.assertTrue(next(answers).HasField("error"))
        self.server.kill()
        with self.assertRaises(grpc.RpcError) as raised:
            next(answers)
        self.assertEqual(raised.exception.code(), grpc.StatusCode.UNAVAILABLE)
        self.restart()
        another = stub.GemmStream(requests(), timeout=CALL_LIMIT_S,
                                  wait_for_ready=True)
        self.assertTrue(next(another).HasField("error"))


if __name__ == "__main__":
    unittest.main()
