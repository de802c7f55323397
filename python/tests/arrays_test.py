# SPDX-License-Identifier: Apache-2.0
"""Operands and results of every array kind, and the messages that carry them."""

import unittest
import unittest.mock

import ml_dtypes
import numpy as np
from qgemm import _upload, _wire, arrays, formats
from qgemm.v1 import qgemm_pb2 as pb

from support import Exporter

try:
    import torch
except ImportError:
    torch = None

VALUES = np.array([[1.5, -2.25, 0], [3e-5, 700, -0.125]], np.float32)


class OperandTest(unittest.TestCase):
    def check(self, x, type, expected=VALUES):
        operand = arrays.as_operand(x)
        self.assertEqual(operand.type, type)
        self.assertEqual(operand.shape, expected.shape)
        np.testing.assert_array_equal(operand.as_float32(), expected)
        self.assertEqual(len(operand.view), operand.elements.nbytes)
        return operand

    def test_numpy(self):
        half = VALUES.astype(np.float16)
        self.check(half, "fp16", half.astype(np.float32))
        brain = VALUES.astype(ml_dtypes.bfloat16)
        self.check(brain, "bf16", brain.astype(np.float32))
        for x in (VALUES, VALUES.astype(np.float64), VALUES.astype(">f4"),
                  VALUES.tolist(), np.asfortranarray(VALUES),
                  np.repeat(VALUES, 2, axis=1)[:, ::2]):
            self.check(x, "fp32")

    def test_contiguous_arrays_are_lent(self):
        for x in (VALUES, VALUES.astype(np.float16),
                  VALUES.astype(ml_dtypes.bfloat16)):
            self.assertTrue(np.shares_memory(arrays.as_operand(x).elements, x))
            self.assertTrue(np.shares_memory(
                np.frombuffer(arrays.as_operand(x).view, np.uint8), x))

    def test_dlpack(self):
        self.check(Exporter(VALUES), "fp32")
        bits = arrays.to_bf16(VALUES)
        brain = arrays.from_bf16(bits)
        operand = self.check(Exporter(bits, code=4), "bf16", brain)
        self.assertTrue(np.shares_memory(operand.elements, bits))
        self.check(Exporter(bits.T, code=4), "bf16", brain.T)
        self.check(Exporter(bits[:, ::2], code=4), "bf16", brain[:, ::2])
        self.check(Exporter(bits[::-1, ::-1], code=4), "bf16", brain[::-1, ::-1])
        self.check(Exporter(bits[:0], code=4), "bf16", brain[:0])
        with self.assertRaisesRegex(TypeError, "uint16"):
            arrays.as_operand(Exporter(bits))

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_torch(self):
        x = torch.tensor(VALUES)
        operand = self.check(x, "fp32")
        self.assertTrue(operand.is_torch)
        self.assertTrue(np.shares_memory(operand.elements, x.numpy()))
        self.check(x.clone().requires_grad_(), "fp32")
        brain = x.to(torch.bfloat16)
        self.check(brain, "bf16", brain.float().numpy())
        self.check(brain.T, "bf16", brain.T.float().numpy())
        for type, kind in (("bf16", torch.bfloat16), ("fp16", torch.float16),
                           ("fp32", torch.float32), ("int32", torch.int32)):
            result = arrays.Result((2, 3), type, True)
            result.memory[:] = 0
            self.assertEqual(result.array().dtype, kind)
            self.assertEqual(result.array().sum().item(), 0)
        out = torch.empty((2, 3), dtype=torch.bfloat16)
        result = arrays.Result((2, 3), "bf16", True, out)
        result.memory[:] = operand.as_type("bf16").view
        self.assertTrue(torch.equal(out, brain))
        with self.assertRaisesRegex(ValueError, "contiguous"):
            arrays.Result((3, 2), "bf16", True, out.T)
        whole = torch.empty((2, 3), dtype=torch.int32)
        self.assertIs(arrays.Result((2, 3), "int32", True, whole).array(), whole)

    def test_other_elements_are_refused(self):
        for x in (np.ones(3, np.int32), np.ones(3, np.complex64), ["a"]):
            with self.assertRaisesRegex(TypeError, "expected float16, bfloat16"):
                arrays.as_operand(x)

    def test_bf16_rounds_as_ml_dtypes(self):
        bits = np.random.default_rng(3).integers(0, 2**32, 100000, np.uint32)
        special = np.array([0, np.inf, np.nan, 3.4e38], np.float32)
        values = np.concatenate([bits.view(np.float32), special])
        with np.errstate(invalid="ignore", over="ignore"):
            expected = values.astype(ml_dtypes.bfloat16)
        ours = arrays.to_bf16(values).view(ml_dtypes.bfloat16)
        np.testing.assert_array_equal(ours.astype(np.float32),
                                      expected.astype(np.float32))


class ResultTest(unittest.TestCase):
    def test_out_takes_the_result(self):
        out = np.empty((2, 3), np.float32)
        result = arrays.Result((2, 3), "fp32", False, out)
        result.memory[:] = VALUES.reshape(-1).view(np.uint8)
        self.assertIs(result.array(), out)
        np.testing.assert_array_equal(out, VALUES)

    def test_out_must_fit(self):
        locked = np.empty((2, 3), np.float32)
        locked.flags.writeable = False
        for out, words in ((np.empty((3, 2), np.float32), r"\[3, 2\] of fp32"),
                           (np.empty((2, 3), np.float16), "of fp16"),
                           (np.empty((2, 3)), "elements of float64"),
                           (np.empty((2, 6), np.float32)[:, ::2], "C-contiguous"),
                           (locked, "writable")):
            with self.assertRaisesRegex(ValueError, words):
                arrays.Result((2, 3), "fp32", False, out)
        with self.assertRaisesRegex(TypeError, "list"):
            arrays.Result((1,), "fp32", False, [0.0])
        with self.assertRaisesRegex(ValueError, "of int32"):
            arrays.Result((1,), "fp32", False, np.empty(1, np.int32))

    def test_bf16_is_widened_without_ml_dtypes(self):
        result = arrays.Result((2, 3), "bf16", False)
        result.memory[:] = arrays.to_bf16(VALUES).reshape(-1).view(np.uint8)
        expected = VALUES.astype(ml_dtypes.bfloat16)
        self.assertEqual(result.array().dtype, ml_dtypes.bfloat16)
        np.testing.assert_array_equal(result.array(), expected)
        with unittest.mock.patch.dict("sys.modules", ml_dtypes=None):
            self.assertEqual(result.array().dtype, np.float32)
            np.testing.assert_array_equal(result.array(),
                                          expected.astype(np.float32))


class WireTest(unittest.TestCase):
    def setUp(self):
        self.rng = np.random.default_rng(4)

    def test_requests_are_what_protobuf_makes(self):
        for size in (0, 1, 127, 128, 16383, 16384, 1 << 21):
            data = self.rng.bytes(size)
            head = pb.GemmRequest(weights="w", m=3, client_id="c")
            parts = [memoryview(data)[:size // 3], memoryview(data)[size // 3:]]
            made = pb.GemmRequest.FromString(
                _wire.with_operand(head.SerializeToString(), parts))
            head.a = data
            self.assertEqual(made, head)

    def test_chunks_are_what_protobuf_makes(self):
        data = self.rng.bytes(300)
        made = pb.LoadWeightsRequest.FromString(
            _upload._chunk(formats.SECTIONS["codes"], 1 << 40, memoryview(data)))
        self.assertEqual(made.chunk, pb.WeightsChunk(
            section=pb.SECTION_CODES, offset=1 << 40, bytes=data))

    def test_answers_are_split_wherever_the_operand_stands(self):
        timings = pb.GemmResponse(timings=pb.Timings(queue_ns=1 << 60, launch_rows=7))
        unknown = b"\xa5\x06abcd" + b"\xa1\x06abcdefgh"  # fields 100
        operand = pb.GemmResponse(c=b"x" * 200).SerializeToString()
        known = timings.SerializeToString()
        for message in (known + operand, operand + known,
                        unknown + operand + unknown + known):
            rest, c = _wire.split_operand(message)
            self.assertEqual(bytes(c), b"x" * 200)
            self.assertEqual(pb.GemmResponse.FromString(rest).timings,
                             timings.timings)

    def test_broken_answers_are_refused(self):
        whole = pb.GemmResponse(timings=pb.Timings(queue_ns=5),
                                c=b"y" * 200).SerializeToString()
        refused = 0
        for _ in range(20000):
            broken = bytearray(whole[:self.rng.integers(1, len(whole) + 1)])
            broken[self.rng.integers(len(broken))] = self.rng.integers(256)
            try:
                _, c = _wire.split_operand(bytes(broken))
                self.assertLessEqual(len(c), len(broken))
            except ValueError:
                refused += 1
        self.assertGreater(refused, 1000)


if __name__ == "__main__":
    unittest.main()
