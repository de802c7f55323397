# SPDX-License-Identifier: Apache-2.0
"""Products of layers in every format against float64, and bad requests."""

import functools
import json
import math
import pathlib
import unittest

import grpc
import numpy as np
from qgemm.v1 import qgemm_pb2 as pb

import quantize
import wire
from end_to_end import EndToEnd, K, M, N

UNIT = {"fp16": 2.0**-11, "bf16": 2.0**-8}
A32_UNIT = 2.0**-22
FLOAT32_UNIT = 2.0**-23
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


class GemmTest(EndToEnd):
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

    # Bad requests ----------------------------------------------------------

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


if __name__ == "__main__":
    unittest.main()
