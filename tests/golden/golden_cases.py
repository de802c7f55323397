# SPDX-License-Identifier: Apache-2.0
"""Golden cases of layers as they are uploaded: random codes and scales, and
the ends of every range.

Bytes and expected weights come from reference_codecs.py; make_golden.py
writes them down.
"""

import zlib

import numpy as np

import reference_codecs as rc


class Random:
    """The frozen legacy generator, integers only: alike on every machine."""

    def __init__(self, name):
        self.state = np.random.RandomState(zlib.crc32(name.encode()))

    def integers(self, low, high, shape):
        return self.state.randint(low, high, shape)

    def gaussian(self, shape):
        """Nearly normal: the sum of twelve uniforms; exact in fp32."""
        draws = self.integers(0, 4096, tuple(shape) + (12,))
        return (draws.sum(axis=-1) / 4096 - 6).astype(rc.F32)

    def shuffled(self, values):
        values = np.array(values)
        for i in range(len(values) - 1, 0, -1):
            j = self.integers(0, i + 1, ())
            values[[i, j]] = values[[j, i]]
        return values


def spec_of(kind, shape, bias, **fields):
    n, k = shape
    return dict(format=kind, n=n, k=k, bias=int(bias is not None), **fields)


def bias_section(bias):
    return {} if bias is None else {"bias": np.asarray(bias, "<f4").tobytes()}


def codebook_section(codebook):
    return {} if codebook is None else {"codebook": codebook.tobytes()}


# kbit.


def custom_codebook(bits):
    """NF4, and for the other widths values in no order."""
    if bits == 4:
        return rc.NF4
    return (Random(f"codebook{bits}").gaussian((2**bits,)) * 3).astype(rc.F32)


def resident_scales(absmax, kind):
    """What absmax values (as stored) become: fp64 scales, flushed blocks and
    tensor_scale."""
    if kind == "e4m4":
        return rc.e4m4_decode(absmax), 0, 1.0
    tensor_scale = rc.e4m4_tensor_scale(absmax)
    codes = rc.e4m4_encode(absmax / tensor_scale)
    flushed = int(((codes == 0) & (absmax > 0)).sum())
    return rc.e4m4_decode(codes) * tensor_scale, flushed, tensor_scale


def kbit_case(golden, name, bits, codes, absmax, kind, **options):
    """absmax: uint8 codes for e4m4, else values that `kind` holds exactly."""
    layout = options.get("layout", "flat")
    codebook = options.get("codebook")
    bias = options.get("bias")
    element = {"e4m4": np.uint8, "fp16": np.float16, "fp32": np.float32}[kind]
    stored = np.asarray(absmax).astype(element)
    words = rc.kbit_words(codes, bits)
    scales, flushed, tensor_scale = resident_scales(
        stored if kind == "e4m4" else stored.astype(rc.F64), kind)
    if layout == "tiled":
        stored, words = rc.kbit_tile(stored), rc.kbit_tile(words)
    values = rc.default_codebook(bits) if codebook is None else codebook
    golden.case(
        name,
        spec_of("kbit",
                codes.shape,
                bias,
                bits=bits,
                layout=layout,
                scale_type=kind,
                codebook=int(codebook is not None)), {
                    **codebook_section(codebook),
                    **bias_section(bias), "scales": stored.tobytes(),
                    "codes": words.tobytes()
                },
        rc.kbit_weights(codes, values, scales),
        flushed=flushed,
        tensor_scale=tensor_scale,
        **{key: options[key] for key in ("encode", "input") if key in options})


def random_absmax(name, shape, kind):
    random = Random(name)
    if kind == "e4m4":
        absmax = random.integers(0, 256, shape)
        absmax.flat[:6] = [0x00, 0x01, 0x0f, 0x10, 0xff, 0xb0]
        return absmax
    absmax = 2.0**random.integers(-10, 4, shape)
    return absmax * (1 + random.integers(0, 1024, shape) / 1024)


def kbit_cases(golden):
    for bits in (2, 3, 4, 5):
        for layout, shape in (("flat", (3, 96)), ("tiled", (128, 96))):
            codes = Random(f"kbit{bits}{layout}").integers(0, 2**bits, shape)
            blocks = (shape[0], shape[1] // 32)
            for kind in ("e4m4", "fp16", "fp32"):
                absmax = random_absmax(layout + kind, blocks, kind)
                for book in ("default", "custom"):
                    custom = book == "custom"
                    kbit_case(
                        golden,
                        f"kbit{bits}_{layout}_{kind}_{book}",
                        bits,
                        codes.astype(np.uint8),
                        absmax,
                        kind,
                        layout=layout,
                        codebook=custom_codebook(bits) if custom else None,
                        bias=Random("bias").gaussian(shape[:1])
                        if custom else None)


def absmax_cases(golden):
    """Where a block absmax meets the ends of E4M4's range, or a tie."""
    codes = np.arange(4 * 64).reshape(4, 64).astype(np.uint8) % 16
    unit = 2.0**-14
    below = float(np.nextafter(rc.F32(2.0**-10), rc.F32(0)))
    above = float(np.nextafter(rc.F32(31), rc.F32(32)))
    for name, kind, absmax in (
        ("zero", "fp32", [0] * 8), ("exactly_in_range", "fp32",
                                    [31, 2.0**-10, 1, 0, 2, 3, 4,
                                     5]), ("just_above", "fp32",
                                           [above, 2.0**-10, 1, 0, 2, 3, 4, 5]),
        ("just_below", "fp32",
         [31, below, 1, 0, 2, 3, 4,
          5]), ("below_and_half", "fp32",
                [15.5, below, 1, 0, 2, 3, 4,
                 5]), ("below_and_over_half", "fp32",
                       [15.500001, below, 1, 0, 2, 3, 4, 5]),
        ("huge", "fp32", [1e30, 3e29, 1e28, 7e26, 1e25, 2e38,
                          0, 1]), ("largest", "fp32",
                                   [3.4028234663852886e38] + [1e37] * 7),
        ("tiny", "fp32",
         [1e-30, 4e-31, 3e-32, 2e-33, 1e-34, 1e-35,
          0, 9e-31]), ("subnormal", "fp32",
                       [1e-40, 4e-41, 1.4e-45, 2e-42, 1e-42, 3e-44, 0,
                        1e-43]), ("both_ways", "fp32",
                                  [1e20, 1e-20, 1, 5e19, 1e18, 1e15, 0, 3]),
        ("normal_ties", "fp32",
         [1 + (2 * i + 1) / 32 for i in (0, 1, 2, 3, 12, 13, 14, 15)
         ]), ("subnormal_ties", "fp32",
              [20] + [unit * (i + 0.5) for i in (0, 1, 2, 3, 13, 14, 15)]),
        ("fp16_ends", "fp16",
         [65504, 2.0**-24, 2.0**-14, 1, 32, 31, 0, 3 * 2.0**-24
         ]), ("fp16_subnormal", "fp16",
              [2.0**-24 * i for i in (1, 2, 3, 5, 100, 1023, 0, 7)])):
        kbit_case(golden, f"absmax_{name}", 4, codes,
                  np.array(absmax, rc.F32).reshape(4, 2), kind)


# Q4_0 and ternary.


def q4_0_case(golden, name, codes, scales, **options):
    bias = options.pop("bias", None)
    golden.case(name, spec_of("q4_0", codes.shape, bias), {
        **bias_section(bias), "codes": rc.q4_0_bytes(codes, scales)
    }, rc.q4_0_weights(codes, scales), **options)


def q4_0_cases(golden):
    random = Random("q4_0")
    codes = random.integers(0, 16, (3, 96)).astype(np.uint8)
    scales = np.array(
        [1, -0.5, 65504, 2.0**-24, -2.0**-14, 0, -0.0, 3e-5, -65504],
        np.float16).reshape(3, 3)
    q4_0_case(golden, "q4_0", codes, scales)
    q4_0_case(golden, "q4_0_bias", codes, scales, bias=random.gaussian((3,)))


def ternary_case(golden, name, values, scales, coding, **options):
    """scales: fp32 [n], or [1] for one that all rows share."""
    bias = options.pop("bias", None)
    scales = np.asarray(scales, rc.F32)
    wide = len(scales) != len(values) or options.pop("wide", False)
    golden.case(
        name,
        spec_of("ternary",
                values.shape,
                bias,
                coding=coding,
                tensor_wide_scale=int(wide)), {
                    **bias_section(bias), "scales": scales.tobytes(),
                    "codes": rc.ternary_bytes(values, coding)
                },
        values * scales.astype(rc.F64)[:, None], **options)


def ternary_cases(golden):
    for coding in ("int8", "packed_012", "packed_123"):
        random = Random("ternary")
        for k in (1, 77, 96):
            values = random.integers(-1, 2, (4, k))
            ternary_case(golden, f"ternary_{coding}_k{k}", values,
                         [0.75, 1e-40, 0, 3e38], coding)
            ternary_case(golden,
                         f"ternary_{coding}_k{k}_wide",
                         values, [0.1],
                         coding,
                         bias=[1, -2, 1e-40, 3e38])


# INT4.


def int4_scales(name, shape, kind):
    scales = Random(name).gaussian(shape)
    if scales.size >= 4:
        scales.flat[:4] = [0, 3e4, 6e-8, -0.25]
    return rc.store(scales, kind)


def int4_case(golden, name, codes, zeros, scales, kind, group, **options):
    """zeros: uint8 [n, groups], or None for the fixed 8."""
    wire, values = scales
    bias = options.pop("bias", None)
    eights = np.full(np.shape(values), 8)
    sections = {**bias_section(bias), "scales": wire}
    if zeros is not None:
        sections["zeros"] = zeros.astype(np.uint8).tobytes()
    sections["codes"] = rc.int4_plain_bytes(codes)
    golden.case(
        name,
        spec_of("int4",
                codes.shape,
                bias,
                layout="plain",
                scale_type=kind,
                group_size=group,
                zeros=int(zeros is not None)), sections,
        rc.int4_weights(codes, eights if zeros is None else zeros, values,
                        group or codes.shape[1]), **options)


def int4_plain_cases(golden):
    for group in (32, 64, 128, 0):
        for kind in ("fp16", "bf16", "fp32"):
            for with_zeros in (False, True):
                name = f"int4_plain_g{group}_{kind}"
                name += "_zeros" if with_zeros else ""
                random = Random(name)
                codes = random.integers(0, 16, (2, 161)).astype(np.uint8)
                shape = (2, rc.groups_of(161, group or 161))
                zeros = random.integers(0, 16, shape)
                zeros.flat[:2] = [0, 15]
                int4_case(golden,
                          name,
                          codes,
                          zeros if with_zeros else None,
                          int4_scales(name, shape, kind),
                          kind,
                          group,
                          bias=random.gaussian((2,)) if with_zeros else None)
    int4_case(golden, "int4_plain_k1", np.array([[15], [0]], np.uint8), None,
              rc.store(np.array([[0.5], [2]]), "fp16"), "fp16", 0)


def packed_int4_case(golden, layout, group, kind, act_order=False):
    """GPTQ and AWQ: scales and zeros are stored [group][column]."""
    n, k = 8, 128
    name = f"int4_{layout}_g{group}_{kind}" + ("_act_order" * act_order)
    random = Random(name)
    size = group or k
    shape = (n, k // size)
    codes = random.integers(0, 16, (n, k)).astype(np.uint8)
    low = 1 if layout == "gptq_v1" else 0
    zeros = random.integers(low, low + 16, shape)
    zeros.flat[:2] = [low, low + 15]
    by_column, values = int4_scales(name, (shape[1], n), kind)
    group_of_k = np.arange(k) // size
    if act_order:
        group_of_k = random.shuffled(group_of_k)
    scales = values.T
    weights = (codes - zeros[:, group_of_k].astype(rc.F64))
    weights = weights * scales[:, group_of_k]
    fields = dict(layout=layout, scale_type=kind, group_size=group)
    sections = {}
    more = {}
    if layout != "awq":
        fields["group_index"] = int(act_order)
    if act_order:
        sections["group_index"] = group_of_k.astype("<i4").tobytes()
        more["permutation"] = np.argsort(group_of_k, kind="stable")
    sections["scales"] = by_column
    if layout == "awq":
        sections["zeros"] = rc.awq_pack(zeros).tobytes()
        sections["codes"] = rc.awq_pack(codes).tobytes()
    else:
        version = 1 if layout == "gptq_v1" else 2
        sections["zeros"] = rc.gptq_zeros(zeros, version).tobytes()
        sections["codes"] = rc.gptq_codes(codes).tobytes()
    golden.case(name, spec_of("int4", (n, k), None, **fields), sections,
                weights, **more)


def packed_int4_cases(golden):
    for layout in ("gptq_v1", "gptq_v2", "awq"):
        for group in (32, 64, 128, 0):
            packed_int4_case(golden, layout, group, "fp16")
        for kind in ("bf16", "fp32"):
            packed_int4_case(golden, layout, 32, kind)
        if layout != "awq":
            packed_int4_case(golden, layout, 32, "fp16", act_order=True)
            packed_int4_case(golden, layout, 64, "fp32", act_order=True)


# Dense.


def dense_cases(golden):
    values = Random("dense").gaussian((3, 37))
    # Ties of both 16-bit types, their subnormals, and the largest fp16.
    values.flat[:12] = [
        0, -0.0, 1 + 2.0**-11, 1 + 3 * 2.0**-11, 1 + 2.0**-8, 1 + 3 * 2.0**-8,
        2.0**-24, 2.0**-25, 3 * 2.0**-25, 65504, -65504, 6.1e-5
    ]
    bias = [0.5, -1.5, 2.5]
    for kind in ("fp32", "fp16", "bf16"):
        for resident in ("fp16", "bf16"):
            source = values
            if kind == "bf16" and resident == "fp16":
                source = np.clip(values, -60000, 60000)
            wire, exact = rc.store(source, kind)
            _, kept = rc.store(exact.astype(rc.F32), resident)
            golden.case(
                f"dense_{kind}_as_{resident}",
                spec_of("dense", (3, 37),
                        bias,
                        type=kind,
                        quantize_to="none",
                        resident_type=resident), {
                            **bias_section(bias), "codes": wire
                        }, kept)


ALL = (kbit_cases, absmax_cases, q4_0_cases, ternary_cases, int4_plain_cases,
       packed_int4_cases, dense_cases)
