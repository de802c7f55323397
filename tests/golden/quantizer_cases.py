# SPDX-License-Identifier: Apache-2.0
"""Golden cases of the quantizers: what the client's encoder makes of a matrix,
and what the server makes of a dense upload.
"""

import numpy as np

import golden_cases as cases
import reference_codecs as rc


def quantizer_matrix(k):
    """Rows that meet the quantizers' edges; every block of 32 is finite and
    its absmax is in E4M4's range or zero."""
    random = cases.Random(f"quantizer{k}")
    rows = [random.gaussian((k,)), random.gaussian((k,)) / 64]
    rows.append(np.zeros(k, rc.F32))
    rows.append(np.where(np.arange(k) % 2 == 0, 1.5, -1.5).astype(rc.F32))
    spike = np.zeros(k, rc.F32)
    spike[k // 2] = -0.75
    rows.append(spike)
    halves = (np.arange(k) % 29 - 14) / 2  # int4's and ternary's ties
    rows.append(np.where(np.arange(k) % 32 == 0, 7, halves).astype(rc.F32))
    halves = (np.arange(k) % 30 - 15) / 2  # Q4_0's
    rows.append(np.where(np.arange(k) % 32 == 0, -8, halves).astype(rc.F32))
    positive = np.abs(random.gaussian((k,))) + rc.F32(0.25)
    rows.append(positive.astype(rc.F32))
    return np.stack(rows)


def kbit_ties(bits):
    """One block whose values lie half way between codebook entries."""
    codebook = rc.default_codebook(bits)
    middles = ((codebook[:-1] + codebook[1:]) / 2).astype(rc.F32)
    row = np.zeros(32, rc.F32)
    row[0] = 1
    row[1:1 + len(middles)] = middles
    return row[None, :]


def absmax_as(absmax, kind):
    if kind == "e4m4":
        return rc.e4m4_encode(absmax)
    return absmax.astype(np.float16 if kind == "fp16" else rc.F32)


def encode_kbit_cases(golden):
    for bits in (2, 3, 4, 5):
        for kind in ("e4m4", "fp16", "fp32"):
            for book in ("default", "custom"):
                encode_kbit(
                    golden, f"encode_kbit{bits}_{kind}_{book}",
                    quantizer_matrix(64), bits, kind,
                    cases.custom_codebook(bits) if book == "custom" else None)
        encode_kbit(golden, f"encode_kbit{bits}_ties", kbit_ties(bits), bits,
                    "e4m4", None)
    wide = quantizer_matrix(64) * 2.0**(np.arange(8)[:, None] * 12 - 40)
    for kind in ("fp32", "e4m4"):
        encode_kbit(golden, f"encode_kbit4_{kind}_range", wide.astype(rc.F32),
                    4, kind, None)
    close = np.array(
        [0.5, -1, 0.5,
         np.nextafter(rc.F32(0.5), rc.F32(1)), 0, -0.0, 1, -1e-9], rc.F32)
    encode_kbit(golden, "encode_kbit3_close_entries", quantizer_matrix(64), 3,
                "e4m4", close)


def encode_kbit(golden, name, matrix, bits, kind, codebook):
    """Absmax that E4M4 would need a tensor scale for travel as fp32."""
    values = rc.default_codebook(bits) if codebook is None else codebook
    codes, absmax = rc.kbit_quantize(matrix, values)
    sent = kind
    if kind == "e4m4" and rc.e4m4_tensor_scale(absmax) != 1:
        sent = "fp32"
    cases.kbit_case(golden,
                    name,
                    bits,
                    codes,
                    absmax_as(absmax, sent),
                    sent,
                    codebook=codebook,
                    input=matrix,
                    encode=f"target=kbit bits={bits} scale_type={kind}")


def encode_cases(golden):
    encode_kbit_cases(golden)
    matrix = quantizer_matrix(96)
    codes, scales = rc.q4_0_quantize(matrix)
    cases.q4_0_case(golden,
                    "encode_q4_0",
                    codes,
                    scales,
                    input=matrix,
                    encode="target=q4_0",
                    bias=np.arange(8))
    matrix = (matrix * 2.0**-128).astype(rc.F32)  # 1 / d overflows
    codes, scales = rc.q4_0_quantize(matrix)
    cases.q4_0_case(golden,
                    "encode_q4_0_tiny",
                    codes,
                    scales,
                    input=matrix,
                    encode="target=q4_0")
    for k in (77, 96):
        matrix = quantizer_matrix(k)
        values, scales = rc.ternary_quantize(matrix)
        for coding in ("int8", "packed_012", "packed_123"):
            cases.ternary_case(golden,
                               f"encode_ternary_{coding}_k{k}",
                               values,
                               scales,
                               coding,
                               input=matrix,
                               encode=f"target=ternary coding={coding}")
    for group in (32, 64, 128, 0):
        for kind in ("fp16", "bf16", "fp32"):
            encode_int4(golden, quantizer_matrix(161), group, kind, 0)
        encode_int4(golden, quantizer_matrix(161), group, "fp16", 1)


def encode_int4(golden, matrix, group, kind, asymmetric):
    codes, zeros, wire, scales = rc.int4_quantize(matrix, group, kind,
                                                  asymmetric)
    cases.int4_case(golden,
                    f"encode_int4_g{group}_{kind}" + "_asymmetric" * asymmetric,
                    codes,
                    zeros if asymmetric else None, (wire, scales),
                    kind,
                    group,
                    input=matrix,
                    encode=f"target=int4 group_size={group} scale_type={kind} "
                    f"asymmetric={asymmetric}")


def quantize_on_load(golden, kind, target, matrix, weights, **options):
    """A dense upload that the server quantizes; weights(matrix) gives the
    weights, or the weights, flushed blocks and tensor_scale."""
    wire, exact = rc.store(matrix, kind)
    result = weights(exact.astype(rc.F32))
    if not isinstance(result, tuple):
        result = (result, 0, 1.0)
    codebook = options.pop("codebook_values", None)
    name = options.pop("name")
    golden.case(name,
                cases.spec_of("dense",
                              matrix.shape,
                              None,
                              type=kind,
                              quantize_to=target,
                              **options),
                {
                    **cases.codebook_section(codebook), "codes": wire
                },
                result[0],
                flushed=result[1],
                tensor_scale=result[2])


def loaded_kbit(bits, codebook=None):
    values = rc.default_codebook(bits) if codebook is None else codebook

    def weights(matrix):
        codes, absmax = rc.kbit_quantize(matrix, values)
        scales, flushed, tensor_scale = cases.resident_scales(
            absmax.astype(rc.F64), "fp32")
        return (rc.kbit_weights(codes, values, scales), flushed, tensor_scale)

    return weights


def count_flushed(scales, absmax):
    return int(((scales == 0) & (absmax > 0)).sum())


def loaded_q4_0(matrix):
    codes, scales = rc.q4_0_quantize(matrix)
    absmax = np.abs(matrix).reshape(len(matrix), -1, 32).max(axis=2)
    return (rc.q4_0_weights(codes, scales), count_flushed(scales, absmax), 1.0)


def loaded_int4(group, scale_type, asymmetric):

    def weights(matrix):
        codes, zeros, _, scales = rc.int4_quantize(matrix, group, scale_type,
                                                   asymmetric)
        size = group or matrix.shape[1]
        absmax = np.stack([
            np.abs(matrix[:, begin:begin + size]).max(axis=1)
            for begin in range(0, matrix.shape[1], size)
        ],
                          axis=1)
        return (rc.int4_weights(codes, zeros, scales,
                                size), count_flushed(scales, absmax), 1.0)

    return weights


def loaded_ternary(matrix):
    values, scales = rc.ternary_quantize(matrix)
    return values * scales.astype(rc.F64)[:, None]


def quantize_on_load_cases(golden):
    matrix = quantizer_matrix(96)
    for kind in ("fp32", "fp16", "bf16"):
        for bits in (2, 3, 4, 5):
            quantize_on_load(golden,
                             kind,
                             "kbit",
                             matrix,
                             loaded_kbit(bits),
                             bits=bits,
                             codebook=0,
                             name=f"{kind}_to_kbit{bits}")
        quantize_on_load(golden,
                         kind,
                         "kbit",
                         matrix,
                         loaded_kbit(4, rc.NF4),
                         bits=4,
                         codebook=1,
                         codebook_values=rc.NF4,
                         name=f"{kind}_to_kbit4_nf4")
        quantize_on_load(golden,
                         kind,
                         "q4_0",
                         matrix,
                         loaded_q4_0,
                         name=f"{kind}_to_q4_0")
        quantize_on_load(golden,
                         kind,
                         "ternary",
                         matrix,
                         loaded_ternary,
                         name=f"{kind}_to_ternary")
        for zeros in (0, 1):
            quantize_on_load(golden,
                             kind,
                             "int4",
                             matrix,
                             loaded_int4(64, "fp16", zeros),
                             scale_type="fp16",
                             group_size=64,
                             zeros=zeros,
                             name=f"{kind}_to_int4_zeros{zeros}")
    for group, scale in ((32, "bf16"), (128, "fp32"), (0, "fp16")):
        quantize_on_load(golden,
                         "fp32",
                         "int4",
                         quantizer_matrix(161),
                         loaded_int4(group, scale, 0),
                         scale_type=scale,
                         group_size=group,
                         zeros=0,
                         name=f"fp32_to_int4_g{group}_{scale}")
    for name, factor in (("huge", 2.0**100), ("tiny", 2.0**-60)):
        quantize_on_load(golden,
                         "fp32",
                         "kbit", (matrix * factor).astype(rc.F32),
                         loaded_kbit(4),
                         bits=4,
                         codebook=0,
                         name=f"fp32_to_kbit4_{name}")
    # Scales around the smallest fp16: some are kept, some are flushed.
    tiny = (matrix * 2.0**-23).astype(rc.F32)
    quantize_on_load(golden,
                     "fp32",
                     "q4_0",
                     tiny,
                     loaded_q4_0,
                     name="fp32_to_q4_0_tiny")
    for zeros in (0, 1):
        quantize_on_load(golden,
                         "fp32",
                         "int4",
                         tiny,
                         loaded_int4(32, "fp16", zeros),
                         scale_type="fp16",
                         group_size=32,
                         zeros=zeros,
                         name=f"fp32_to_int4_zeros{zeros}_tiny")


ALL = (encode_cases, quantize_on_load_cases)
