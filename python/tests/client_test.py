# SPDX-License-Identifier: Apache-2.0
"""The blocking client against a real server."""

import threading
import unittest

import ml_dtypes
import numpy as np
import qgemm
from qgemm import formats, quantize
from qgemm.formats import Dense, Int4, Kbit, Ternary, WeightSpec

from support import K, M, N, ServedTest

try:
    import torch
except ImportError:
    torch = None

BF16_UNIT = 2.0**-8


class GemmTest(ServedTest):
    def setUp(self):
        super().setUp()
        self.client.load("layer", self.w, bias=self.bias, format="fp16")

    def test_types_follow_the_operand(self):
        for kind, unit in ((np.float32, BF16_UNIT), (np.float16, 2.0**-11),
                           (ml_dtypes.bfloat16, BF16_UNIT)):
            x = self.x.astype(kind)
            y = self.client.gemm("layer", x)
            self.assertEqual(y.dtype, kind)
            self.assert_product(y, x, self.w, self.bias, unit)
        self.assertEqual(self.client.gemm("layer", self.x.tolist()).dtype, np.float32)

    def test_the_result_may_have_another_type(self):
        x = self.x.astype(np.float16)
        for dtype, kind, unit in (("fp32", np.float32, 2.0**-11),
                                  ("bf16", ml_dtypes.bfloat16, BF16_UNIT)):
            y = self.client.gemm("layer", x, dtype=dtype)
            self.assertEqual(y.dtype, kind)
            self.assert_product(y, x, self.w, self.bias, unit)

    def test_rounding_is_the_callers(self):
        y = self.client.gemm("layer", self.x, rounding="fp16")
        self.assert_product(y, self.x, self.w, self.bias)

    def test_leading_dimensions_stay(self):
        x = self.rng.standard_normal((2, 3, 4, K)).astype(np.float16)
        whole = self.client.gemm("layer", x)
        self.assertEqual(whole.shape, (2, 3, 4, N))
        np.testing.assert_array_equal(
            whole.reshape(-1, N), self.client.gemm("layer", x.reshape(-1, K)))
        np.testing.assert_array_equal(whole[1, 2, 3],
                                      self.client.gemm("layer", x[1, 2, 3]))

    def test_out_takes_the_result(self):
        out = np.empty((M, N), np.float32)
        y = self.client.gemm("layer", self.x.astype(np.float16), out=out)
        self.assertIs(y, out)
        self.assert_product(out, self.x.astype(np.float16), self.w, self.bias)
        with self.assertRaisesRegex(ValueError, "out is"):
            self.client.gemm("layer", self.x, out=np.empty((M, N + 1), np.float32))

    def test_several_layers_at_once(self):
        other = self.rng.standard_normal((N // 2, K)).astype(np.float32)
        self.client.load("other", other, format="fp16")
        x = self.x.astype(np.float16)
        both = self.client.gemm(["layer", "other"], x)
        for y, name in zip(both, ("layer", "other")):
            np.testing.assert_array_equal(y, self.client.gemm(name, x))
        with self.assertRaises(qgemm.NotFound):
            self.client.gemm(["layer", "nobody"], x)

    def test_modes_priorities_and_timings(self):
        self.client.load("q", self.w, format="q4_0")
        timings = qgemm.Timings()
        for mode in ("A16", "A8", "A32"):
            self.client.gemm("q", self.x, mode=mode, priority="high",
                             client_id="user-1", timings=timings)
            self.assertGreater(timings.total_ns, 0)
            self.assertEqual(timings.launch_rows, M)

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_torch_in_torch_out(self):
        for kind, unit in ((torch.float32, BF16_UNIT), (torch.float16, 2.0**-11),
                           (torch.bfloat16, BF16_UNIT)):
            x = torch.tensor(self.x).to(kind)
            y = self.client.gemm("layer", x)
            self.assertEqual(y.dtype, kind)
            self.assert_product(y.double().numpy(), x.double().numpy(), self.w,
                                self.bias, unit)
            out = torch.empty_like(y)
            self.assertIs(self.client.gemm("layer", x, out=out), out)
            self.assertTrue(torch.equal(out, y))
        self.client.load("torch", torch.tensor(self.w).to(torch.bfloat16))
        self.assertEqual(self.client.describe("torch").n, N)

    def test_threads_share_a_client(self):
        expected = self.client.gemm("layer", self.x)
        wrong = []

        def work():
            for _ in range(50):
                if (self.client.gemm("layer", self.x) != expected).any():
                    wrong.append(1)

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_arguments_that_cannot_be_sent(self):
        for act, words in (
                (lambda: self.client.gemm("layer", np.float32(1)), "dimension"),
                (lambda: self.client.gemm("layer", self.x, dtype="fp8"), "'fp8'"),
                (lambda: self.client.gemm("layer", self.x, mode="A4"), "A16"),
                (lambda: self.client.gemm("layer", self.x, priority="top"), "low"),
                (lambda: self.client.load("a", self.x[0]), r"\[n, k\]"),
                (lambda: self.client.load("a", self.w, where="here"), "where"),
                (lambda: self.client.load("a", self.w, bias=self.x[0]), r"\[48\]")):
            with self.assertRaisesRegex(ValueError, words):
                act()

    def test_errors_name_the_field_and_what_to_do(self):
        with self.assertRaises(qgemm.InvalidArgument) as raised:
            self.client.gemm("layer", self.x[:, :-1])
        error = raised.exception
        self.assertEqual((error.code, error.field), ("INVALID_ARGUMENT", "a"))
        self.assertIn(f"k = {K}", error.message)
        self.assertIn(error.advice, str(error))
        self.assertIsInstance(error, ValueError)
        with self.assertRaisesRegex(qgemm.NotFound, "nobody.*Load it first"):
            self.client.gemm("nobody", self.x)
        with self.assertRaises(qgemm.Unimplemented):
            self.client.gemm("layer", self.x, mode="A8")


class LoadTest(ServedTest):
    FORMATS = ("kbit2", "kbit3", "kbit4", "kbit5", "nf4", "q4_0", "ternary", "int4",
               Int4(32, "bf16", zeros=True), Int4(0, "fp32"))

    def test_client_and_server_quantize_alike(self):
        for values in (self.w, self.w.astype(np.float16),
                       self.w.astype(ml_dtypes.bfloat16)):
            for format in self.FORMATS:
                with self.subTest(format=format, type=values.dtype):
                    by_server = self.client.load("s", values, format=format)
                    by_client = self.client.load("c", values, bias=None,
                                                 format=format, where="client")
                    self.assertNotEqual(by_server.weights.id, by_client.weights.id)
                    s, c = self.client.gemm(["s", "c"], self.x)
                    np.testing.assert_array_equal(s, c)

    def test_every_layout_of_the_package_is_taken(self):
        packed = self.client.load("p", self.w, format=Ternary("packed_123"),
                                  where="client")
        plain = self.client.load("q", self.w, format="ternary", where="client")
        self.assertNotEqual(packed.weights.id, plain.weights.id)
        p, q = self.client.gemm(["p", "q"], self.x)
        np.testing.assert_array_equal(p, q)

    def test_the_id_is_the_specs(self):
        made, sections = quantize.quantize(
            qgemm.arrays.as_operand(self.w), Kbit(3))
        sections["bias"] = self.bias
        spec = WeightSpec(N, K, made, bias=True)
        answer = self.client.load_packed("", spec, sections)
        self.assertEqual(answer.weights.id, spec.id(sections))
        self.assertEqual(answer.weights.spec, spec.text())
        self.assertEqual(self.client.gemm(answer.weights.id, self.x).shape, (M, N))

    def test_dense_keeps_its_type(self):
        for format, spec in (("dense", "type=fp32.*resident_type=bf16"),
                             ("fp16", "type=fp32.*resident_type=fp16"),
                             (Dense("bf16"), "type=bf16.*resident_type=bf16")):
            answer = self.client.load("d", self.w, format=format)
            self.assertRegex(answer.weights.spec.replace("\n", " "), spec)

    def test_the_same_weights_are_not_taken_again(self):
        self.assertFalse(self.client.load("a", self.w * 2).deduplicated)
        self.assertTrue(self.client.load("b", self.w * 2).deduplicated)
        self.assertEqual(list(self.client.describe("a").names), ["a", "b"])

    def test_progress_ends_with_all_bytes(self):
        w = self.rng.standard_normal((1024, 512)).astype(np.float32)
        told = []
        self.client.load("big", w, progress=lambda *bytes: told.append(bytes))
        self.assertEqual(told[-1], (w.nbytes, w.nbytes))
        self.assertEqual(len(told), w.nbytes // (512 << 10))

        def give_up(sent, total):
            raise KeyError("enough")

        with self.assertRaisesRegex(KeyError, "enough"):
            self.client.load("never", w + 1, progress=give_up)
        with self.assertRaises(qgemm.NotFound):
            self.client.describe("never")

    def test_conditions_on_a_name(self):
        first = self.client.load("name", self.w, create_only=True).weights.id
        with self.assertRaises(qgemm.AlreadyExists):
            self.client.load("name", self.w + 1, create_only=True)
        with self.assertRaises(qgemm.FailedPrecondition):
            self.client.load("name", self.w + 1, if_match="0" * 64)
        self.client.load("name", self.w + 1, if_match=first)
        self.assertNotEqual(self.client.describe("name").id, first)

    def test_lists_and_unloads(self):
        self.client.load("x/1", self.w + 5)
        self.client.load("x/2", self.w + 6, format="kbit4")
        listed = {info.names[0]: info.format for info in self.client.weights()
                  if info.names[0].startswith("x/")}
        self.assertEqual(listed, {"x/1": "dense", "x/2": "kbit4"})
        self.assertTrue(self.client.unload("x/1"))
        with self.assertRaises(qgemm.NotFound):
            self.client.unload("x/1")
        info = self.client.info()
        self.assertEqual(info.backend, "cpu")
        self.assertIn("q4_0", info.formats)

    def test_the_server_has_the_last_word(self):
        with self.assertRaises(qgemm.InvalidArgument) as raised:
            self.client.load("bad name", self.w)
        self.assertIn("bad name", raised.exception.message)
        spec = WeightSpec(N, K, formats.Q4_0())
        with self.assertRaisesRegex(ValueError, "codes has"):
            self.client.load_packed("a", spec, {"codes": b"short"})


class ProgramTest(ServedTest):
    def setUp(self):
        super().setUp()
        self.client.load("up", self.w, format="fp16")
        self.client.load("down", self.w.T.copy(), bias=self.x[0], format="fp16")

    def block(self):
        """x + down(relu(up(norm(x)))), and the hidden row's two largest."""
        p = qgemm.Program("fp32")
        x = p.input(K, "x", dtype="fp16")
        h = p.rms_norm(x, np.full(K, 2.0), eps=0.0)
        hidden = p.act(p.gemm(h, "up", rounding="fp16"), "relu", name="hidden")
        values, ids = p.top_k(hidden, 2)
        p.output(x + p.gemm(hidden, "down", rounding="fp16"), ids, values)
        return p

    def test_a_program_answers_like_its_ops(self):
        program = self.client.load_program("block", self.block())
        self.assertEqual(program.id, self.client.program("block").id)
        self.assertEqual([port.type for port in program.outputs],
                         ["fp32", "int32", "fp32"])
        timings = qgemm.Timings()
        y, ids, values = self.client.run(program, self.x, timings=timings,
                                         time_ops=True)
        self.assertEqual(len(timings.op_ns), program.ops)
        x = self.x.astype(np.float16).astype(np.float32)
        mean = np.mean(x.astype(np.float64)**2, axis=1, keepdims=True)
        h = (2 * x / np.sqrt(mean)).astype(np.float32)
        hidden = np.maximum(self.client.gemm("up", h, rounding="fp16"), 0)
        np.testing.assert_allclose(np.sort(values), np.sort(hidden)[:, -2:], rtol=2e-3)
        np.testing.assert_allclose(np.take_along_axis(hidden, ids, 1), values,
                                   rtol=2e-3)
        down = self.client.gemm("down", hidden, rounding="fp16")
        np.testing.assert_allclose(y, x + down, rtol=2e-3, atol=2e-2)

    def test_shapes_and_outs(self):
        self.client.load_program("block", self.block())
        x = np.stack([self.x, self.x])
        y, ids, values = self.client.run("block", x)
        self.assertEqual(y.shape, (2, M, K))
        np.testing.assert_array_equal(y[0], y[1])
        outs = [np.empty_like(y), np.empty_like(ids), None]
        again = self.client.run("block", x, outs=outs)
        self.assertIs(again[0], outs[0])
        np.testing.assert_array_equal(again[0], y)
        self.assertIs(again[1], outs[1])
        np.testing.assert_array_equal(again[1], ids)

    def test_one_output_stands_alone(self):
        p = qgemm.Program("bf16")
        p.output(p.convert(p.gemm(p.input(K), "up"), "fp32"))
        y = self.client.run(self.client.load_program("one", p), self.x)
        self.assertEqual((y.shape, y.dtype), ((M, N), np.float32))
        self.assertTrue(self.client.unload_program("one"))

    def test_every_op_is_taken(self):
        p = qgemm.Program("fp32")
        x = p.input(K)
        same = p.constant(np.ones(K))
        self.assertIs(p.constant(np.ones(K, np.float64)), same)
        half = p.slice(x, 0, K // 2)
        norm = p.layer_norm(p.clamp(x, -1, 1), same, np.zeros(K))
        for kind in ("silu", "sigmoid", "gelu_erf", "gelu_tanh", "relu", "tanh"):
            norm = p.act(norm, kind)
        p.output(p.mul(norm, same) * x, p.silu(half))
        program = self.client.load_program("", p)
        self.assertEqual(program.ops, 12)
        listed = [info.id for info in self.client.programs()]
        self.assertIn(program.id, listed)
        self.client.run(program, self.x)

    def test_mistakes_are_named(self):
        program = self.client.load_program("block", self.block())
        for act, words in (
                (lambda: self.client.run(program), "0 inputs; .* has 1"),
                (lambda: self.client.run(program, self.x[:, 1:]), r"x is \[5, 63\]"),
                (lambda: self.client.run(program, self.x, outs=[None]), "3 outputs"),
                (lambda: qgemm.Program().input(3) + self.block().input(3), "another")):
            with self.assertRaisesRegex(ValueError, words):
                act()
        p = qgemm.Program()
        p.output(p.gemm(p.input(K + 1), "up"))
        with self.assertRaisesRegex(qgemm.InvalidArgument, "width 65"):
            self.client.load_program("", p)


if __name__ == "__main__":
    unittest.main()
