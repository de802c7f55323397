# SPDX-License-Identifier: Apache-2.0
"""Layers and requests: small ones that are checked against fp64, and ones whose
answers are far larger than what asks for them."""

import math
import struct

import grpc
import numpy as np
from qgemm.v1 import program_pb2
from qgemm.v1 import qgemm_pb2 as pb
from qgemm.v1 import qgemm_pb2_grpc

PACKAGE = "/qgemm.v1.Qgemm/"
CHUNK_BYTES = 1 << 20
FLOAT16_UNIT = 2.0**-11
FLOAT32_UNIT = 2.0**-23
# A layer of one input row whose answers are large: n outputs from k inputs.
WIDE_N, WIDE_K = 1 << 20, 4
WIDE_M = 15
OPTIONS = (("grpc.max_receive_message_length", -1),
           ("grpc.max_send_message_length", -1),
           ("grpc.use_local_subchannel_pool", 1))


def channel_to(target):
    """A channel with a connection of its own."""
    return grpc.insecure_channel(target, options=OPTIONS)


def stub_of(channel):
    return qgemm_pb2_grpc.QgemmStub(channel)


def chunks(section, data):
    for offset in range(0, len(data), CHUNK_BYTES):
        yield pb.LoadWeightsRequest(chunk=pb.WeightsChunk(
            section=section, offset=offset,
            bytes=data[offset:offset + CHUNK_BYTES]))


def dense_header(name, n, k):
    return pb.WeightsHeader(name=name, n=n, k=k, total_bytes=2 * n * k,
                            dense=pb.DenseFormat(type=pb.FLOAT_TYPE_FP16))


def dense_messages(name, matrix):
    """The messages that upload an fp16 matrix [n, k]."""
    yield pb.LoadWeightsRequest(header=dense_header(name, *matrix.shape))
    yield from chunks(pb.SECTION_CODES, matrix.astype("<f2").tobytes())


def ternary_messages(name, n, k):
    """Ternary zeros with one scale: a quarter of a byte an element. k is a
    multiple of 4."""
    header = pb.WeightsHeader(
        name=name, n=n, k=k, total_bytes=4 + n * k // 4,
        ternary=pb.TernaryFormat(coding=pb.TernaryFormat.CODING_PACKED_012,
                                 tensor_wide_scale=True))
    yield pb.LoadWeightsRequest(header=header)
    yield from chunks(pb.SECTION_SCALES, struct.pack("<f", 1.0))
    yield from chunks(pb.SECTION_CODES, bytes([0b01010101]) * (n * k // 4))


def wide_messages(name):
    """1 MiB of codes; 15 rows are answered by 60 MiB."""
    return ternary_messages(name, WIDE_N, WIDE_K)


def wide_request(**fields):
    return pb.GemmRequest(
        m=WIDE_M, a_type=pb.FLOAT_TYPE_FP16, c_type=pb.FLOAT_TYPE_FP32,
        a=bytes(2 * WIDE_M * WIDE_K), **fields)


def tiny_messages(number):
    """An unnamed layer of one element that no other number shares."""
    yield pb.LoadWeightsRequest(header=pb.WeightsHeader(
        n=1, k=1, ternary=pb.TernaryFormat(), total_bytes=5))
    yield from chunks(pb.SECTION_SCALES, struct.pack("<f", 1 + number / 65536))
    yield from chunks(pb.SECTION_CODES, b"\x01")


class CheckedLayer:
    """A random fp16 layer, activations for it, and their product in fp64."""

    def __init__(self, name, n, k, m, seed):
        rng = np.random.default_rng(seed)
        self.name = name
        self.matrix = (rng.standard_normal((n, k)) / math.sqrt(k)).astype(
            np.float16)
        self.rows = rng.standard_normal((m, k)).astype(np.float16)
        exact, wide = self.rows.astype(float), self.matrix.astype(float)
        self._product = exact @ wide.T
        # fp32 sums of exact products; kernels may round operands to fp16.
        self._bound = ((k + 8) * FLOAT32_UNIT + 2 * FLOAT16_UNIT) * (
            np.abs(exact) @ np.abs(wide).T)

    def upload(self, stub, timeout):
        return stub.LoadWeights(dense_messages(self.name, self.matrix),
                                timeout=timeout)

    def request(self, **fields):
        return pb.GemmRequest(
            weights=self.name, m=len(self.rows), a_type=pb.FLOAT_TYPE_FP16,
            c_type=pb.FLOAT_TYPE_FP32, a=self.rows.astype("<f2").tobytes(),
            **fields)

    def program(self):
        """A program of one product of the rows, answered as a Gemm is."""
        return program_pb2.Program(
            revision=1, inputs=[program_pb2.Program.Input(
                type=program_pb2.NUMBER_TYPE_FP16, width=self.rows.shape[1])],
            ops=[program_pb2.Program.Op(
                type=program_pb2.NUMBER_TYPE_FP32,
                gemm=program_pb2.Program.Gemm(x=0, weights=self.name))],
            outputs=[1])

    def is_right(self, answer):
        """True if an answer's C is the product, element by element."""
        if len(answer) != 4 * self._product.size:
            return False
        got = np.frombuffer(answer, "<f4").reshape(self._product.shape)
        return bool(np.all(np.abs(got - self._product) <= self._bound))
