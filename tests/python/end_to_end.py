# SPDX-License-Identifier: Apache-2.0
"""What the tests of the stock client share: a real server for each class of
them, one layer's operands, and a request of each kind.

Generated stubs, grpcio and numpy, nothing of ours. QGEMM_SERVER names the
server's binary; tests/python/run.sh prepares and runs the tests.
"""

import os
import random
import sys
import unittest

import grpc
import numpy as np
from qgemm.v1 import qgemm_pb2 as pb
from qgemm.v1 import qgemm_pb2_grpc

import wire
from server_process import ServerProcess

SERVER_BINARY = os.environ["QGEMM_SERVER"]
N, K, M = 48, 256, 5


def channel_to(address):
    """A stock channel with a connection of its own. 64 MiB is the server's
    default message limit."""
    limit = 64 << 20
    return grpc.insecure_channel(address, options=[
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.max_receive_message_length", limit),
        ("grpc.max_send_message_length", limit)])


class EndToEnd(unittest.TestCase):
    """Its subclasses hold the tests; self.name() names a test's own layer."""

    flags = ()  # of the server

    @classmethod
    def setUpClass(cls):
        cls.server = ServerProcess(SERVER_BINARY, *cls.flags)
        cls.addClassCleanup(cls.server.__exit__, None, None, None)
        cls.server.__enter__()
        cls.channel = channel_to(cls.server.address)
        cls.addClassCleanup(cls.channel.close)
        cls.stub = qgemm_pb2_grpc.QgemmStub(cls.channel)
        cls.seed = random.SystemRandom().randrange(1 << 32)
        print(f"seed {cls.seed}", file=sys.stderr)

    def setUp(self):
        self.rng = np.random.default_rng(self.seed)
        # Exact in fp16, so that a dense fp16 upload holds the same values.
        self.w = (self.rng.standard_normal((N, K)) / 4).astype(
            np.float16).astype(np.float32)
        self.a = self.rng.standard_normal((M, K)).astype(np.float16)

    def name(self):
        return "python/" + self.id().rsplit(".", maxsplit=1)[-1]

    def upload_dense(self, **target):
        header = pb.WeightsHeader(
            name=self.name(), n=N, k=K,
            dense=pb.DenseFormat(type=pb.FLOAT_TYPE_FP16, **target))
        data = self.w.astype("<f2").tobytes()
        return wire.upload(self.stub, header, [("codes", data)])

    def upload_kbit4(self, sections, name):
        text = wire.canonical_text("kbit", N, K, False, [
            ("bits", 4), ("layout", "flat"), ("scale_type", "e4m4"),
            ("codebook", 0)])
        header = pb.WeightsHeader(
            name=name, n=N, k=K, kbit=pb.KbitFormat(bits=4),
            sha256=wire.weights_id(text, sections))
        return wire.upload(self.stub, header, sections)

    def gemm(self, a_bytes, a_type=pb.FLOAT_TYPE_FP16, m=M, **fields):
        fields.setdefault("c_type", pb.FLOAT_TYPE_FP32)
        fields.setdefault("weights", self.name())
        return self.stub.Gemm(
            pb.GemmRequest(m=m, a_type=a_type, a=a_bytes, **fields),
            timeout=60)

    def assert_code(self, code, call, *words):
        with self.assertRaises(grpc.RpcError) as raised:
            call()
        self.assertEqual(raised.exception.code(), code,
                         raised.exception.details())
        for word in words:
            self.assertIn(word, raised.exception.details())
        self.stub.GetServerInfo(pb.GetServerInfoRequest(), timeout=60)
