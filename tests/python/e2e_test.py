#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A stock Python client against the real server: generated stubs, grpcio and
numpy, nothing of ours. tests/python/run.sh prepares and runs it.

Usage: e2e_test.py SERVER_BINARY
"""

import functools
import json
import math
import pathlib
import random
import sys
import unittest

import grpc
import numpy as np
from grpc_channelz.v1 import channelz_pb2, channelz_pb2_grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase)
from qgemm.v1 import debug_pb2, debug_pb2_grpc
from qgemm.v1 import qgemm_pb2 as pb
from qgemm.v1 import qgemm_pb2_grpc

import quantize
import wire
from server_process import ServerProcess

SERVER_BINARY = ""
UNIT = {"fp16": 2.0**-11, "bf16": 2.0**-8}
A32_UNIT = 2.0**-22
FLOAT32_UNIT = 2.0**-23
N, K, M = 48, 256, 5
DEMO_WEIGHTS = (pathlib.Path(__file__).resolve().parents[2] / "demo" /
                "minilm_block.safetensors")


def error_bound(operands_unit, terms, chain):
    """Relative to sum |a w|: the roundings of operands to the compute type,
    and fp32 accumulation in chains whose sums are added up."""
    links = min(terms, chain) + math.ceil(terms / chain)
    return operands_unit + (links + 8) * FLOAT32_UNIT


def safetensors(path):
    """The fp16 tensors of a file by name."""
    data = path.read_bytes()
    header_bytes = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + header_bytes])
    header.pop("__metadata__")
    payload = data[8 + header_bytes:]
    return {name: np.frombuffer(payload[slice(*entry["data_offsets"])],
                                "<f2").reshape(entry["shape"])
            for name, entry in header.items()}


def channel_to(address):
    """A stock channel: 64 MiB is the server's default message limit."""
    limit = 64 << 20
    return grpc.insecure_channel(address, options=[
        ("grpc.max_receive_message_length", limit),
        ("grpc.max_send_message_length", limit)])


class EndToEnd(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = ServerProcess(SERVER_BINARY)
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

    def gemm(self, a_bytes, a_type=pb.FLOAT_TYPE_FP16, m=M, **fields):
        fields.setdefault("c_type", pb.FLOAT_TYPE_FP32)
        fields.setdefault("weights", self.name())
        return self.stub.Gemm(
            pb.GemmRequest(m=m, a_type=a_type, a=a_bytes, **fields),
            timeout=60)

    def assert_product(self, answer, a, matrix, bound):
        """Each fp32 element of the answer against float64."""
        a = a.astype(np.float64)
        expected = a @ matrix.T
        tolerance = (bound * (np.abs(a) @ np.abs(matrix).T) +
                     np.abs(expected) * 2.0**-24)
        got = np.frombuffer(answer.c, "<f4").reshape(expected.shape)
        worst = np.max(np.abs(got - expected) / tolerance)
        self.assertLessEqual(worst, 1.0, f"seed {self.seed}")

    def assert_fp16_product(self, matrix):
        answer = self.gemm(self.a.astype("<f2").tobytes())
        self.assert_product(answer, self.a, matrix,
                            error_bound(2 * UNIT["fp16"], K, 1024))
        return answer

    def assert_code(self, code, call, *words):
        with self.assertRaises(grpc.RpcError) as raised:
            call()
        self.assertEqual(raised.exception.code(), code,
                         raised.exception.details())
        for word in words:
            self.assertIn(word, raised.exception.details())
        self.stub.GetServerInfo(pb.GetServerInfoRequest(), timeout=60)

    # Formats ---------------------------------------------------------------

    def test_dense_stays_dense(self):
        self.assertEqual(self.upload_dense().weights.format, "dense")
        self.assert_fp16_product(self.w.astype(np.float64))

    def test_server_quantizes_to_kbit4(self):
        loaded = self.upload_dense(quantize_kbit=pb.KbitFormat(bits=4))
        self.assertEqual(loaded.weights.format, "kbit4")
        self.assert_fp16_product(quantize.kbit4(self.w)[0])

    def test_server_quantizes_to_q4_0(self):
        self.upload_dense(quantize_q4_0=pb.Q40Format())
        self.assert_fp16_product(quantize.q4_0(self.w))

    def test_server_quantizes_to_int4(self):
        self.upload_dense(quantize_int4=pb.Int4Format(group_size=64))
        self.assert_fp16_product(quantize.int4(self.w, 64)[0])

    def test_server_quantizes_to_ternary(self):
        self.upload_dense(quantize_ternary=pb.TernaryFormat())
        self.assert_fp16_product(quantize.ternary(self.w)[0])

    def upload_kbit4(self, sections, name):
        text = wire.canonical_text("kbit", N, K, False, [
            ("bits", 4), ("layout", "flat"), ("scale_type", "e4m4"),
            ("codebook", 0)])
        header = pb.WeightsHeader(
            name=name, n=N, k=K, kbit=pb.KbitFormat(bits=4),
            sha256=wire.weights_id(text, sections))
        return wire.upload(self.stub, header, sections)

    def test_packed_kbit4(self):
        matrix, sections = quantize.kbit4(self.w)
        self.upload_kbit4(sections, self.name())
        self.assert_fp16_product(matrix)

    def test_packed_int4(self):
        matrix, sections = quantize.int4(self.w, 32)
        text = wire.canonical_text("int4", N, K, False, [
            ("layout", "plain"), ("scale_type", "fp16"), ("group_size", 32),
            ("zeros", 0)])
        header = pb.WeightsHeader(
            name=self.name(), n=N, k=K, int4=pb.Int4Format(group_size=32),
            sha256=wire.weights_id(text, sections))
        loaded = wire.upload(self.stub, header, sections)
        self.assertEqual(loaded.weights.spec, text)
        self.assertEqual(loaded.weights.id,
                         wire.weights_id(text, sections).hex())
        self.assert_fp16_product(matrix)

    def test_bias_is_added(self):
        matrix, sections = quantize.ternary(self.w)
        bias = self.rng.standard_normal(N).astype("<f4")
        header = pb.WeightsHeader(name=self.name(), n=N, k=K, has_bias=True,
                                  ternary=pb.TernaryFormat())
        wire.upload(self.stub, header, [("bias", bias.tobytes())] + sections)
        # The bias as one more input feature that is always 1.
        ones = np.ones((M, 1), np.float16)
        answer = self.gemm(self.a.astype("<f2").tobytes())
        self.assert_product(
            answer, np.hstack([self.a, ones]),
            np.hstack([matrix, bias.astype(np.float64)[:, None]]),
            error_bound(2 * UNIT["fp16"], K, 1024))

    def test_trained_layers_with_their_biases(self):
        tensors = safetensors(DEMO_WEIGHTS)
        for layer in ("attention.self.query", "intermediate.dense",
                      "output.dense"):
            with self.subTest(layer=layer):
                self.check_trained_layer(
                    tensors[f"encoder.layer.0.{layer}.weight"],
                    tensors[f"encoder.layer.0.{layer}.bias"])

    def check_trained_layer(self, w, bias):
        n, k = w.shape
        header = pb.WeightsHeader(
            name=self.name(), n=n, k=k, has_bias=True, dense=pb.DenseFormat(
                type=pb.FLOAT_TYPE_FP16, quantize_q4_0=pb.Q40Format()))
        wire.upload(self.stub, header, [
            ("bias", bias.astype("<f4").tobytes()), ("codes", w.tobytes())])
        a = self.rng.standard_normal((M, k)).astype(np.float16)
        matrix = quantize.q4_0(w.astype(np.float32))
        answer = self.gemm(a.astype("<f2").tobytes())
        self.assert_product(
            answer, np.hstack([a, np.ones((M, 1), np.float16)]),
            np.hstack([matrix, bias.astype(np.float64)[:, None]]),
            error_bound(2 * UNIT["fp16"], k, 1024))

    # Modes and types -------------------------------------------------------

    def test_bf16_activations_and_results(self):
        self.upload_dense(quantize_kbit=pb.KbitFormat(bits=4))
        halves = quantize.to_bf16(self.a.astype(np.float32))
        wide = self.gemm(halves.tobytes(), pb.FLOAT_TYPE_BF16)
        self.assert_product(wide, quantize.from_bf16(halves),
                            quantize.kbit4(self.w)[0],
                            error_bound(2 * UNIT["bf16"], K, 1024))
        narrow = self.gemm(halves.tobytes(), pb.FLOAT_TYPE_BF16,
                           c_type=pb.FLOAT_TYPE_BF16)
        rounded = quantize.to_bf16(np.frombuffer(wide.c, "<f4"))
        self.assertEqual(narrow.c, rounded.tobytes())

    def test_mode_a8_quantizes_activations_to_q8_1(self):
        self.upload_dense(quantize_q4_0=pb.Q40Format())
        answer = self.gemm(self.a.astype("<f2").tobytes(),
                           mode=pb.COMPUTE_MODE_A8)
        self.assert_product(answer, quantize.q8_1(self.a),
                            quantize.q4_0(self.w),
                            error_bound(0, K // 32, 1024))

    def test_mode_a32_is_fp32_accurate(self):
        self.upload_dense(quantize_ternary=pb.TernaryFormat())
        a = self.rng.standard_normal((M, K)).astype("<f4")
        answer = self.gemm(a.tobytes(), pb.FLOAT_TYPE_FP32,
                           mode=pb.COMPUTE_MODE_A32)
        self.assert_product(answer, a, quantize.ternary(self.w)[0],
                            error_bound(2 * A32_UNIT, K, 256))

    def test_a_row_has_the_same_bits_alone_and_among_others(self):
        self.upload_dense(quantize_kbit=pb.KbitFormat(bits=4))
        together = np.frombuffer(
            self.gemm(self.a.astype("<f2").tobytes()).c, "<u4")
        for row in range(M):
            alone = self.gemm(self.a[row].astype("<f2").tobytes(), m=1)
            self.assertEqual(alone.c,
                             together.reshape(M, N)[row].tobytes())

    # Streams ---------------------------------------------------------------

    def stream_request(self, request_id, data, m=M, **fields):
        gemm = pb.GemmRequest(weights=self.name(), m=m,
                              a_type=pb.FLOAT_TYPE_FP16,
                              c_type=pb.FLOAT_TYPE_FP32)
        return pb.GemmStreamRequest(
            request_id=request_id, a=data,
            open=pb.GemmStreamOpen(gemm=gemm, **fields))

    def test_a_stream_answers_like_gemm(self):
        self.upload_dense(quantize_kbit=pb.KbitFormat(bits=4))
        data = self.a.astype("<f2").tobytes()
        rows = [data[i * K * 2:(i + 1) * K * 2] for i in range(M)]
        answers = list(self.stub.GemmStream(
            (self.stream_request(i, row, m=1) for i, row in enumerate(rows)),
            timeout=60))
        together = self.gemm(data).c
        self.assertEqual(sorted(a.request_id for a in answers),
                         list(range(M)))
        for answer in answers:
            row = answer.request_id
            self.assertEqual(answer.c,
                             together[row * N * 4:(row + 1) * N * 4])

    def test_a_stream_takes_and_gives_fragments(self):
        self.upload_dense(quantize_kbit=pb.KbitFormat(bits=4))
        data = np.tile(self.a, (100, 1)).astype("<f2").tobytes()
        step = 4000
        messages = [self.stream_request(
            7, data[:step], m=100 * M, a_bytes=len(data),
            c_fragment_bytes=4096)]
        messages += [pb.GemmStreamRequest(
            request_id=7, fragment=pb.GemmStreamFragment(offset=at),
            a=data[at:at + step]) for at in range(step, len(data), step)]
        answers = list(self.stub.GemmStream(iter(messages), timeout=60))
        self.assertEqual([a.offset for a in answers],
                         list(range(0, 100 * M * N * 4, 4096)))
        self.assertEqual(b"".join(a.c for a in answers),
                         self.gemm(data, m=100 * M).c)

    def test_an_error_of_one_request_leaves_the_stream(self):
        self.upload_dense(quantize_kbit=pb.KbitFormat(bits=4))
        data = self.a.astype("<f2").tobytes()
        answers = {a.request_id: a for a in self.stub.GemmStream(iter([
            self.stream_request(1, data[:-1]), self.stream_request(2, data)]),
            timeout=60)}
        self.assertEqual(answers[1].error.code,
                         grpc.StatusCode.INVALID_ARGUMENT.value[0])
        self.assertIn(str(len(data) - 1), answers[1].error.message)
        self.assertFalse(answers[2].HasField("error"))
        self.assertEqual(answers[2].c, self.gemm(data).c)

    def test_a_message_of_no_request_ends_the_stream(self):
        self.assert_code(
            grpc.StatusCode.INVALID_ARGUMENT,
            lambda: list(self.stub.GemmStream(
                iter([pb.GemmStreamRequest(request_id=3)]), timeout=60)),
            "request_id = 3", "open, fragment and cancel")

    def test_a_request_of_a_stream_can_be_cancelled(self):
        self.upload_dense(quantize_kbit=pb.KbitFormat(bits=4))
        data = self.a.astype("<f2").tobytes()
        answer, = self.stub.GemmStream(iter([
            self.stream_request(1, data[:100], a_bytes=len(data)),
            pb.GemmStreamRequest(request_id=1, cancel=pb.GemmStreamCancel())]),
            timeout=60)
        self.assertEqual(answer.error.code,
                         grpc.StatusCode.CANCELLED.value[0])

    # Identity and names ----------------------------------------------------

    def test_same_upload_is_deduplicated_without_chunks(self):
        _, sections = quantize.kbit4(self.w + 1)
        first = self.upload_kbit4(sections, self.name())
        text = first.weights.spec
        header = pb.WeightsHeader(
            name=self.name() + ".again", n=N, k=K,
            kbit=pb.KbitFormat(bits=4), sha256=wire.weights_id(text, sections),
            total_bytes=sum(len(data) for _, data in sections))
        again = self.stub.LoadWeights(
            iter([pb.LoadWeightsRequest(header=header)]), timeout=60)
        self.assertTrue(again.deduplicated)
        self.assertEqual(again.weights.id, first.weights.id)
        self.assertEqual(list(again.weights.names),
                         [self.name(), self.name() + ".again"])

    def test_weights_go_with_their_last_name(self):
        self.w += 2
        loaded = self.upload_dense(quantize_q4_0=pb.Q40Format())
        listed = self.stub.ListWeights(pb.ListWeightsRequest(), timeout=60)
        self.assertIn(loaded.weights.id, [w.id for w in listed.weights])
        freed = self.stub.UnloadWeights(
            pb.UnloadWeightsRequest(weights=self.name()), timeout=60)
        self.assertTrue(freed.freed)
        self.assert_code(
            grpc.StatusCode.NOT_FOUND, lambda: self.stub.GetWeights(
                pb.GetWeightsRequest(weights=loaded.weights.id), timeout=60))

    # Bad input -------------------------------------------------------------

    def test_unknown_weights(self):
        self.assert_code(
            grpc.StatusCode.NOT_FOUND,
            lambda: self.gemm(bytes(M * K * 2), weights="no/such/layer"),
            "no/such/layer")

    def test_bad_gemm_requests(self):
        self.upload_dense(quantize_kbit=pb.KbitFormat(bits=4))
        good = bytes(M * K * 2)
        for fields in ({"a_bytes": good[:-1]}, {"a_bytes": good + b"\0"},
                       {"a_bytes": b"", "m": 0},
                       {"a_bytes": good, "m": (1 << 63) - 1},
                       {"a_bytes": good, "m": (1 << 64) - 1},
                       {"a_bytes": good, "a_type": 0},
                       {"a_bytes": good, "a_type": 77},
                       {"a_bytes": good, "c_type": 77},
                       {"a_bytes": good, "mode": 77}):
            with self.subTest(bytes=len(fields["a_bytes"]), **{
                    k: v for k, v in fields.items() if k != "a_bytes"}):
                self.assert_code(grpc.StatusCode.INVALID_ARGUMENT,
                                 functools.partial(self.gemm, **fields))

    def test_a_mode_without_a_kernel(self):
        self.upload_dense(quantize_kbit=pb.KbitFormat(bits=4))
        self.assert_code(
            grpc.StatusCode.UNIMPLEMENTED,
            lambda: self.gemm(bytes(M * K * 2), mode=pb.COMPUTE_MODE_A8))

    def test_an_answer_beyond_the_message_limit(self):
        n, k, m = 1 << 16, 1, 1 << 10  # 256 MiB of fp32
        header = pb.WeightsHeader(
            name=self.name(), n=n, k=k,
            dense=pb.DenseFormat(type=pb.FLOAT_TYPE_FP16))
        wire.upload(self.stub, header, [("codes", bytes(n * k * 2))])
        self.assert_code(grpc.StatusCode.RESOURCE_EXHAUSTED,
                         lambda: self.gemm(bytes(m * k * 2), m=m))

    def kbit4_header(self, **fields):
        fields.setdefault("n", N)
        fields.setdefault("k", K)
        return pb.WeightsHeader(name=self.name(),
                                kbit=pb.KbitFormat(bits=4), **fields)

    def send(self, *requests):
        return lambda: self.stub.LoadWeights(iter(requests), timeout=60)

    def test_bad_headers(self):
        _, sections = quantize.kbit4(self.w)
        total = sum(len(data) for _, data in sections)
        for fields in ({"n": 0}, {"k": 0}, {"k": 33}, {"n": 1 << 63},
                       {"k": (1 << 63) + 1}, {"total_bytes": total - 1},
                       {"total_bytes": 0}, {"sha256": b"short"}):
            with self.subTest(fields=fields):
                fields.setdefault("total_bytes", total)
                self.assert_code(
                    grpc.StatusCode.INVALID_ARGUMENT,
                    self.send(pb.LoadWeightsRequest(
                        header=self.kbit4_header(**fields))))

    def chunk_requests(self):
        """A header without an id and its chunks, to be spoiled."""
        _, sections = quantize.kbit4(self.w + 3)
        header = self.kbit4_header(
            total_bytes=sum(len(data) for _, data in sections))
        return [pb.LoadWeightsRequest(header=header),
                *wire.chunks(sections, 1024)]

    def test_a_corrupted_chunk(self):
        requests = self.chunk_requests()
        requests[2].chunk.crc32c ^= 1
        self.assert_code(grpc.StatusCode.DATA_LOSS, self.send(*requests))

    def test_what_is_absent_is_not_checked(self):
        requests = self.chunk_requests()
        requests[0].header.ClearField("total_bytes")
        for request in requests[1:]:
            request.chunk.ClearField("crc32c")
        loaded = self.send(*requests)()
        self.assertEqual(loaded.weights.format, "kbit4")

    def test_reordered_chunks(self):
        requests = self.chunk_requests()
        requests[2], requests[3] = requests[3], requests[2]
        self.assert_code(grpc.StatusCode.ABORTED, self.send(*requests))

    def test_a_missing_last_chunk(self):
        self.assert_code(grpc.StatusCode.INVALID_ARGUMENT,
                         self.send(*self.chunk_requests()[:-1]))

    def test_chunks_without_a_header(self):
        self.assert_code(grpc.StatusCode.INVALID_ARGUMENT,
                         self.send(*self.chunk_requests()[1:]))

    def test_a_wrong_id(self):
        requests = self.chunk_requests()
        requests[0].header.sha256 = bytes(32)
        self.assert_code(grpc.StatusCode.DATA_LOSS, self.send(*requests))

    def test_an_illegal_ternary_code_names_its_place(self):
        codes = np.zeros((N, K), np.int8)
        codes[7, 13] = 2
        header = pb.WeightsHeader(name=self.name(), n=N, k=K,
                                  ternary=pb.TernaryFormat())
        sections = [("scales", np.ones(N, "<f4").tobytes()),
                    ("codes", codes.tobytes())]
        self.assert_code(grpc.StatusCode.INVALID_ARGUMENT,
                         lambda: wire.upload(self.stub, header, sections),
                         "7", "13")

    def test_failed_uploads_leave_nothing_behind(self):
        def held():
            return self.stub.GetServerInfo(pb.GetServerInfoRequest(),
                                           timeout=60).weights_bytes

        before = held()
        requests = self.chunk_requests()
        requests[-1].chunk.crc32c ^= 1
        self.assert_code(grpc.StatusCode.DATA_LOSS, self.send(*requests))
        self.assertEqual(held(), before)

    # Services beside ours --------------------------------------------------

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


def main():
    global SERVER_BINARY  # pylint: disable=global-statement
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    SERVER_BINARY = sys.argv[1]
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(EndToEnd)
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    bad = {test.id().split(" ")[0] for test, _ in
           result.failures + result.errors}
    print(f"{max(0, result.testsRun - len(bad))} passed, {len(bad)} failed")
    return 1 if bad or not result.testsRun else 0


if __name__ == "__main__":
    sys.exit(main())
