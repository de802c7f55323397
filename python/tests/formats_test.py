# SPDX-License-Identifier: Apache-2.0
"""Specs and quantizers give the bytes and ids of the golden files."""

import os
import unittest
import unittest.mock

import numpy as np
from qgemm import arrays, formats, quantize
from qgemm.formats import Dense, Int4, Kbit, Q4_0, Ternary, WeightSpec

import support


def golden_cases():
    """The cases of tests/golden/golden.txt, each a dict; make_golden.py says what
    the lines mean."""
    with open(os.path.join(support.GOLDEN, "golden.bin"), "rb") as file:
        blob = file.read()
    with open(os.path.join(support.GOLDEN, "golden.txt"), encoding="ascii") as file:
        lines = [line.split() for line in file if line.strip() and line[0] != "#"]
    at = lambda words: blob[int(words[0]):int(words[0]) + int(words[1])]
    pairs = lambda words: dict(word.split("=") for word in words)
    cases = []
    for key, *words in lines:
        if key == "case":
            cases.append({"name": words[0], "sections": {}})
        elif key == "section":
            cases[-1]["sections"][words[0]] = at(words[1:])
        elif key == "spec":
            cases[-1]["spec"] = pairs(words[1:])
            cases[-1]["text"] = "\n".join(words) + "\n"
        elif key == "encode":
            cases[-1]["encode"] = pairs(words)
        elif key == "input":
            cases[-1]["input"] = np.frombuffer(at(words), "<f4")
        elif key == "id":
            cases[-1]["id"] = words[0]
    return cases


def kbit_of(fields, book, **more):
    return Kbit(int(fields["bits"]), book, **more)


def int4_of(fields, **more):
    return Int4(int(fields["group_size"]), fields["scale_type"],
                fields.get("zeros") == "1", **more)


def format_of(case):
    """The wire format of a case's spec."""
    fields, sections = case["spec"], case["sections"]
    book = (np.frombuffer(sections["codebook"], "<f4")
            if "codebook" in sections else None)
    if fields["format"] == "kbit":
        return kbit_of(fields, book, layout=fields["layout"],
                       scale_type=fields["scale_type"])
    if fields["format"] == "int4":
        return int4_of(fields, layout=fields["layout"],
                       group_index=fields.get("group_index") == "1")
    if fields["format"] == "ternary":
        return Ternary(fields["coding"], fields["tensor_wide_scale"] == "1")
    if fields["format"] == "q4_0":
        return Q4_0()
    to = {"kbit": lambda: kbit_of(fields, book), "int4": lambda: int4_of(fields),
          "q4_0": Q4_0, "ternary": Ternary,
          "none": lambda: fields["resident_type"]}[fields["quantize_to"]]()
    return Dense(fields["type"], to)


def target_of(case):
    """The format that the quantizer is asked for."""
    fields, sections = case["encode"], case["sections"]
    if fields["target"] == "kbit":
        book = (np.frombuffer(sections["codebook"], "<f4")
                if "codebook" in sections else None)
        return kbit_of(fields, book, scale_type=fields["scale_type"])
    if fields["target"] == "int4":
        return Int4(int(fields["group_size"]), fields["scale_type"],
                    fields["asymmetric"] == "1")
    return Q4_0() if fields["target"] == "q4_0" else Ternary(fields["coding"])


class GoldenTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cases = golden_cases()

    def test_every_spec_has_its_text_and_id(self):
        self.assertGreater(len(self.cases), 200)
        for case in self.cases:
            with self.subTest(case["name"]):
                fields = case["spec"]
                spec = WeightSpec(int(fields["n"]), int(fields["k"]),
                                  format_of(case), fields["bias"] == "1")
                self.assertEqual(spec.text(), case["text"])
                self.assertEqual(spec.id(case["sections"]), case["id"])

    def test_quantizers_give_the_golden_bytes(self):
        cases = [case for case in self.cases if "encode" in case]
        self.assertGreater(len(cases), 50)
        for case in cases:
            with self.subTest(case["name"]):
                shape = int(case["spec"]["n"]), int(case["spec"]["k"])
                w = arrays.as_operand(case["input"].reshape(shape))
                made, sections = quantize.quantize(w, target_of(case))
                if "bias" in case["sections"]:
                    sections["bias"] = case["sections"]["bias"]
                spec = WeightSpec(*shape, made, "bias" in sections)
                self.assertEqual(spec.text(), case["text"])
                self.assertEqual(
                    {name: b"".join(section.pieces(7))
                     for name, section in spec.checked(sections).items()},
                    case["sections"])


class QuantizeTest(unittest.TestCase):
    def setUp(self):
        self.w = np.random.default_rng(2).standard_normal((300, 96))

    def test_panels_do_not_show(self):
        w = arrays.as_operand(self.w)
        for format in (Kbit(3), Q4_0(), Ternary("packed_012"), Int4(32, zeros=True)):
            whole = quantize.quantize(w, format)[1]
            with unittest.mock.patch.object(quantize, "_PANEL_ELEMENTS", 7 * 96):
                parts = quantize.quantize(w, format)[1]
            for name in whole:
                np.testing.assert_array_equal(whole[name], parts[name])

    def test_weights_that_no_scale_holds_are_refused(self):
        for value, words in ((np.nan, "row 7, column 9 = nan"),
                             (-np.inf, "row 7, column 9 = -inf")):
            self.w[7, 9] = value
            with self.assertRaisesRegex(ValueError, words):
                quantize.quantize(arrays.as_operand(self.w), Q4_0())
        self.w[7, 9] = 1e9
        for format in (Q4_0(), Int4()):
            with self.assertRaisesRegex(ValueError, "too large for fp16"):
                quantize.quantize(arrays.as_operand(self.w), format)

    def test_k_must_fit_the_blocks(self):
        with self.assertRaisesRegex(ValueError, "k = 33 is not a multiple of 32"):
            quantize.quantize(arrays.as_operand(self.w[:, :33]), Kbit(4))


class SpecTest(unittest.TestCase):
    def test_sections_are_checked(self):
        spec = WeightSpec(4, 32, Int4(32))
        good = {"scales": bytes(8), "codes": bytes(64)}
        spec.checked(good)
        for sections, words in (
                ({"scales": bytes(8)}, "has scales, codes"),
                ({**good, "zeros": b""}, "has scales, codes"),
                ({**good, "codes": bytes(63)}, "codes has 63 bytes; .* needs 64")):
            with self.assertRaisesRegex(ValueError, words):
                spec.checked(sections)

    def test_a_codebook_comes_with_its_format(self):
        spec = WeightSpec(1, 32, formats.BY_NAME["nf4"])
        made = spec.checked({"scales": bytes(1), "codes": bytes(16)})
        self.assertEqual(list(made), ["codebook", "scales", "codes"])
        np.testing.assert_array_equal(
            np.frombuffer(b"".join(made["codebook"].pieces(64)), "<f4"),
            np.float32(formats.NF4))

    def test_wrong_fields_are_named(self):
        for make, words in (
                (lambda: Kbit(6), "bits = 6"),
                (lambda: Kbit(2, [0, 1]), "codebook has 2 values; 2 bits need 4"),
                (lambda: Kbit(2, [-1, 0, float("nan"), 1]),
                 r"codebook\[2\] = nan; expected a finite fp32 value"),
                (lambda: Kbit(2, [-1e39, 0, 0.5, 1]), r"codebook\[0\] = -1e\+39; "),
                (lambda: Int4(48), "group_size = 48"),
                (lambda: Int4(layout="awq", zeros=True), "zeros"),
                (lambda: Int4(group_index=True), "group_index"),
                (lambda: Dense("fp8"), "type = 'fp8'"),
                (lambda: formats.parse("kbit6"), "format = 'kbit6'"),
                (lambda: WeightSpec(100, 64, Kbit(4, layout="tiled")).sizes(),
                 "n = 100 is not a multiple of 128")):
            with self.assertRaisesRegex(ValueError, words):
                make()


if __name__ == "__main__":
    unittest.main()
