# SPDX-License-Identifier: Apache-2.0
"""Services beside the products: the server's own description, health,
reflection, debugging, channelz; and its end."""

import contextlib
import unittest

import grpc
from grpc_channelz.v1 import channelz_pb2, channelz_pb2_grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase)
from qgemm.v1 import debug_pb2, debug_pb2_grpc
from qgemm.v1 import qgemm_pb2 as pb
from qgemm.v1 import qgemm_pb2_grpc

from end_to_end import SERVER_BINARY, EndToEnd, channel_to
from server_process import ServerProcess


class ServicesTest(EndToEnd):
    def test_server_info(self):
        info = self.stub.GetServerInfo(pb.GetServerInfoRequest(), timeout=60)
        self.assertEqual(info.max_message_bytes, 64 << 20)
        for name in ("kbit2", "kbit3", "kbit4", "kbit5", "q4_0", "ternary",
                     "int4", "dense"):
            self.assertIn(name, info.formats)

    def test_health(self):
        stub = health_pb2_grpc.HealthStub(self.channel)
        answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=60)
        self.assertEqual(answer.status,
                         health_pb2.HealthCheckResponse.SERVING)

    def test_watches_of_one_client_are_bounded(self):
        """Of 1152 over connections that may each have 128 calls, 1024 stay."""
        kept, codes = [], []
        with contextlib.ExitStack() as stack:
            for _ in range(9):
                channel = stack.enter_context(channel_to(self.server.address))
                stub = health_pb2_grpc.HealthStub(channel)
                for _ in range(128):
                    watch = stub.Watch(health_pb2.HealthCheckRequest(),
                                       timeout=120)
                    try:
                        next(watch)
                        kept.append(watch)
                    except grpc.RpcError as error:
                        codes.append(error.code())
        self.assertEqual(len(kept), 1024)
        self.assertEqual(codes, [grpc.StatusCode.RESOURCE_EXHAUSTED] * 128)

    def test_reflection(self):
        database = ProtoReflectionDescriptorDatabase(self.channel)
        self.assertIn("qgemm.v1.Qgemm", database.get_services())
        described = database.FindFileContainingSymbol("qgemm.v1.GemmRequest")
        fields = {message.name: [f.name for f in message.field]
                  for message in described.message_type}
        self.assertEqual(fields["GemmRequest"],
                         [f.name for f in pb.GemmRequest.DESCRIPTOR.fields])

    def test_debug_service_is_off(self):
        stub = debug_pb2_grpc.QgemmDebugStub(self.channel)
        self.assert_code(
            grpc.StatusCode.UNIMPLEMENTED,
            lambda: stub.Echo(debug_pb2.EchoRequest(), timeout=60),
            "--enable_echo")
        self.assert_code(
            grpc.StatusCode.UNIMPLEMENTED,
            lambda: stub.Freeze(debug_pb2.FreezeRequest(), timeout=60),
            "--enable_freeze")

    def test_debug_service_by_its_flags(self):
        with ServerProcess(SERVER_BINARY, "--enable_echo",
                           "--enable_freeze") as server:
            with channel_to(server.address) as channel:
                stub = debug_pb2_grpc.QgemmDebugStub(channel)
                echoed = stub.Echo(debug_pb2.EchoRequest(
                    answer_bytes=3 << 20, a=bytes(5 << 20)), timeout=60)
                self.assertEqual(len(echoed.c), 3 << 20)
                stub.Freeze(debug_pb2.FreezeRequest(duration_ns=1_000_000),
                            timeout=60)
                database = ProtoReflectionDescriptorDatabase(channel)
                self.assertIn("qgemm.v1.QgemmDebug", database.get_services())

    def test_channelz(self):
        with ServerProcess(SERVER_BINARY, "--channelz=on") as server:
            with channel_to(server.address) as channel:
                stub = channelz_pb2_grpc.ChannelzStub(channel)
                servers = stub.GetServers(channelz_pb2.GetServersRequest(),
                                          timeout=60)
                self.assertEqual(len(servers.server), 1)

    def test_sigterm_ends_with_0(self):
        with ServerProcess(SERVER_BINARY) as server:
            with channel_to(server.address) as channel:
                qgemm_pb2_grpc.QgemmStub(channel).GetServerInfo(
                    pb.GetServerInfoRequest(), timeout=60)
            self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main()
