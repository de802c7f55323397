# SPDX-License-Identifier: Apache-2.0
"""Small layers of whole numbers, whose products are exact in every order."""

import zlib

import grpc
import numpy as np
from qgemm.v1 import qgemm_pb2 as pb
from qgemm.v1 import qgemm_pb2_grpc

M, N, K = 2, 64, 64
LIMIT_S = 30


def _numbers(seed, rows):
    return np.random.default_rng(seed).integers(-2, 3, (rows, K))


def _matrix(name):
    return _numbers(zlib.crc32(name.encode()), N)


def activations(seed):
    return _numbers(seed, M)


def wait_for_server(target):
    with grpc.insecure_channel(target) as channel:
        grpc.channel_ready_future(channel).result(LIMIT_S)


def upload(target, names):
    """Loads layers at one address."""
    with grpc.insecure_channel(target) as channel:
        upload_over(channel, names)


def upload_over(channel, names):
    stub = qgemm_pb2_grpc.QgemmStub(channel)
    for name in names:
        stub.LoadWeights(iter(_messages(name)), timeout=LIMIT_S)


def _messages(name):
    data = _matrix(name).astype("<f2").tobytes()
    yield pb.LoadWeightsRequest(header=pb.WeightsHeader(
        name=name, n=N, k=K, total_bytes=len(data),
        dense=pb.DenseFormat(type=pb.FLOAT_TYPE_FP16)))
    yield pb.LoadWeightsRequest(chunk=pb.WeightsChunk(
        section=pb.SECTION_CODES, bytes=data))


def names_at(target):
    """Names that the server at one address holds."""
    with grpc.insecure_channel(target) as channel:
        answer = qgemm_pb2_grpc.QgemmStub(channel).ListWeights(
            pb.ListWeightsRequest(), timeout=LIMIT_S)
    return sorted(name for weights in answer.weights for name in weights.names)


def request(name, a):
    return pb.GemmRequest(weights=name, m=M, a_type=pb.FLOAT_TYPE_FP16,
                          c_type=pb.FLOAT_TYPE_FP32,
                          a=a.astype("<f2").tobytes())


def product_bytes():
    return M * N * 4


def cpp_activations():
    """Those of cpp_caller.cc."""
    return np.arange(M * K).reshape(M, K) % 5 - 2


def is_product(name, a, c):
    if len(c) != product_bytes():
        return False
    return np.array_equal(np.frombuffer(c, "<f4").reshape(M, N),
                          a @ _matrix(name).T)
