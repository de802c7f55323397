# SPDX-License-Identifier: Apache-2.0
"""The row-wise part of the encoder on a qgemm_server, by a stock gRPC client:
product by product, or one program a layer.

Needs the Python code that protoc generates from proto/qgemm/v1. Both ways
round where the other does, so that their embeddings are nearly the same: every
operand of a product to fp16, and q, k and v.
"""

import time

import grpc
import numpy as np
from qgemm.v1 import program_pb2
from qgemm.v1 import qgemm_pb2 as pb
from qgemm.v1 import qgemm_pb2_grpc

from model import EPS, HIDDEN, LAYERS, LINEAR, gelu, layer_norm

CHUNK_BYTES = 512 << 10
TIMEOUT_S = 60
FP16 = program_pb2.NUMBER_TYPE_FP16
FP32 = program_pb2.NUMBER_TYPE_FP32
Program = program_pb2.Program


class Service:
    """A server's stub, which counts the calls that compute and their time."""

    def __init__(self, address):
        self.stub = qgemm_pb2_grpc.QgemmStub(grpc.insecure_channel(address))
        self.calls = 0
        self.seconds = 0.0

    def compute(self, method, request):
        begin = time.perf_counter()
        answer = method(request, timeout=TIMEOUT_S)
        self.seconds += time.perf_counter() - begin
        self.calls += 1
        return answer

    def runs_programs(self):
        info = self.stub.GetServerInfo(pb.GetServerInfoRequest(),
                                       timeout=TIMEOUT_S)
        return info.program_revision > 0


# Weights -----------------------------------------------------------------


def _upload(name, weight, bias, target):
    """The messages that load one layer: fp32, made `target` by the server."""
    n, k = weight.shape
    yield pb.LoadWeightsRequest(header=pb.WeightsHeader(
        name=name, n=n, k=k, has_bias=True,
        dense=pb.DenseFormat(type=pb.FLOAT_TYPE_FP32, **target)))
    for section, values in ((pb.SECTION_BIAS, bias),
                            (pb.SECTION_CODES, weight)):
        data = values.astype("<f4").tobytes()
        for offset in range(0, len(data), CHUNK_BYTES):
            yield pb.LoadWeightsRequest(chunk=pb.WeightsChunk(
                section=section, offset=offset,
                bytes=data[offset:offset + CHUNK_BYTES]))


def weights_name(prefix, layer, product):
    return f"{prefix}/layer.{layer}/{product}"


def products_of(layer):
    """The products of a layer that the server computes."""
    return [p for p in LINEAR if layer > 0 or p not in ("q", "k", "v")]


def load_weights(service, model, prefix, target):
    """Loads every product in a form of DenseFormat.target; resident bytes."""
    resident_bytes = 0
    for layer in range(LAYERS):
        for product in products_of(layer):
            weight, bias = model.linear(layer, product)
            answer = service.stub.LoadWeights(
                _upload(weights_name(prefix, layer, product), weight, bias,
                        target), timeout=TIMEOUT_S)
            resident_bytes += answer.weights.resident_bytes
    return resident_bytes


# Product by product ------------------------------------------------------


class ByGemms:
    """Six Gemm calls a layer, three for the last; norms and GELU are here."""

    def __init__(self, service, model, prefix):
        self._service = service
        self._model = model
        self._prefix = prefix

    def __call__(self, layer, a, x):
        """What model.encode wants between two attentions."""
        r = self._norm(layer, "after_attention",
                       x + self._gemm(layer, "o", a))
        up = gelu(self._gemm(layer, "up", r))
        x = self._norm(layer, "after_ffn", r + self._gemm(layer, "down", up))
        if layer == LAYERS - 1:
            return (x,)
        return (x, *(self._gemm(layer + 1, product, x, pb.FLOAT_TYPE_FP16)
                     for product in "qkv"))

    def _norm(self, layer, place, x):
        return layer_norm(x, *self._model.norm(layer, place))

    def _gemm(self, layer, product, a, c_type=pb.FLOAT_TYPE_FP32):
        answer = self._service.compute(
            self._service.stub.Gemm, pb.GemmRequest(
                weights=weights_name(self._prefix, layer, product), m=len(a),
                a_type=pb.FLOAT_TYPE_FP16, c_type=c_type,
                a=a.astype("<f2").tobytes()))
        kind = "<f4" if c_type == pb.FLOAT_TYPE_FP32 else "<f2"
        c = np.frombuffer(answer.c, kind).astype(np.float32)
        return c.reshape(len(a), -1)


# Programs ----------------------------------------------------------------


def layer_program(model, prefix, layer):
    """The layer behind its attention, and the next one's products.

    Inputs are the attention's result a and x, which entered the layer; outputs
    x' and, but for the last layer, q, k and v.
    """
    program = Program(revision=1, value_type=FP32)
    program.inputs.add(name="a", type=FP16, width=HIDDEN)         # value 0
    program.inputs.add(name="x", width=HIDDEN)                    # value 1
    for place in ("after_attention", "after_ffn"):                # 2 to 5
        for values in model.norm(layer, place):
            program.constants.add(values=values.astype("<f4").tobytes())

    def gemm(x, product, of=layer, rounding=FP16):
        return {"name": product, "gemm": Program.Gemm(
            x=x, weights=weights_name(prefix, of, product),
            rounding=rounding)}

    def norm(x, weight):
        return {"layer_norm": Program.LayerNorm(
            x=x, weight=weight, bias=weight + 1, eps=EPS)}

    for op in (
            gemm(0, "o", rounding=None),                          # 6
            {"add": Program.Binary(x=1, y=6)},
            norm(7, weight=2),                                    # 8: r
            gemm(8, "up"),
            {"act": Program.Act(x=9, kind=Program.Act.KIND_GELU_ERF)},
            gemm(10, "down"),
            {"add": Program.Binary(x=8, y=11)},
            norm(12, weight=4)):                                  # 13: x'
        program.ops.add(**op)
    program.outputs.append(13)
    if layer < LAYERS - 1:
        for product in "qkv":
            program.ops.add(type=FP16, **gemm(13, product, of=layer + 1))
        program.outputs.extend((14, 15, 16))
    return program


class ByPrograms:
    """One call a layer."""

    def __init__(self, service, model, prefix):
        self._service = service
        self._programs = [
            service.stub.LoadProgram(pb.LoadProgramRequest(
                name=f"{prefix}/layer.{layer}",
                program=layer_program(model, prefix, layer)),
                timeout=TIMEOUT_S).program.id
            for layer in range(LAYERS)]

    def __call__(self, layer, a, x):
        """What model.encode wants between two attentions."""
        inputs = a.astype("<f2").tobytes() + x.astype("<f4").tobytes()
        outputs = self._service.compute(
            self._service.stub.Run, pb.RunRequest(
                program=self._programs[layer], m=len(a),
                inputs=inputs)).outputs
        x = np.frombuffer(outputs, "<f4", count=x.size).reshape(x.shape)
        rest = np.frombuffer(outputs, "<f2", offset=x.nbytes)
        return (x, *rest.reshape(-1, *x.shape).astype(np.float32))
