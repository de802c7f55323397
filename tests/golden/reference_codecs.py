# SPDX-License-Identifier: Apache-2.0
"""The wire formats of docs/formats.md in plain numpy, slow and obvious.

Written from the formats' definitions and from nothing else, so that it can
disagree with kernels/formats. make_golden.py makes the golden files by it.
"""

import statistics

import numpy as np

F32 = np.float32
F64 = np.float64

# docs/formats.md#kbit, the positive halves.
_CODEBOOK_HALVES = {
    2: [0.276993573, 1],
    3: [0.102541275, 0.318603665, 0.578276932, 1],
    4: [0.0420953855, 0.127340987, 0.215946302, 0.310904741, 0.416818887,
        0.542209148, 0.707568824, 1],
    5: [0.0181886554, 0.0546781458, 0.0915090814, 0.128925994, 0.167200953,
        0.206649229, 0.247651234, 0.290684968, 0.336377233, 0.385589212,
        0.43957144, 0.500268459, 0.570998311, 0.658254206, 0.778104544, 1],
}

# QLoRA's NF4.
NF4 = np.array([
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453,
    -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0,
    0.07958029955625534, 0.16093020141124725, 0.24611230194568634,
    0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
    0.7229568362236023, 1.0], F32)


def default_codebook(bits):
    """The embedded constants, checked against normal quantiles."""
    half = np.array(_CODEBOOK_HALVES[bits], F32)
    codebook = np.concatenate([-half[::-1], half])
    count = 2**bits
    normal = statistics.NormalDist()
    points = np.linspace(0.5 / count, 1 - 0.5 / count, count)
    quantiles = np.array([normal.inv_cdf(p) for p in points]).astype(F32)
    derived = quantiles / np.abs(quantiles).max()
    assert np.array_equal(codebook, derived), bits
    return codebook


# Scalar types.


def to_fp16(values):
    return np.asarray(values, F32).astype(np.float16)


def to_bf16_bits(values):
    """uint16 bits, nearest even; the values must be finite."""
    bits = np.asarray(values, F32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def from_bf16_bits(bits):
    return (bits.astype(np.uint32) << 16).view(F32)


def e4m4_decode(codes):
    codes = np.asarray(codes, np.uint8).astype(int)
    exponent, mantissa = codes >> 4, codes & 15
    return np.where(exponent > 0,
                    2.0**(exponent - 11.0) * (1 + mantissa / 16.0),
                    2.0**-10 * mantissa / 16.0)


def e4m4_tensor_scale(absmax):
    """The power of two that a tensor's block absmax are divided by."""
    nonzero = [float(a) for a in np.ravel(absmax) if a > 0]
    if not nonzero or (max(nonzero) <= 31 and min(nonzero) >= 2.0**-10):
        return 1.0
    power = -126
    while max(nonzero) / 2.0**power > 31:
        power += 1
    return 2.0**power


def e4m4_encode(values):
    """The reference encoder; values are 0..31."""
    codes = []
    for value in np.asarray(values, F64).ravel():
        if value <= 0:
            codes.append(0)
            continue
        floor_log2 = int(np.frexp(value)[1]) - 1
        exponent = min(max(floor_log2 + 11, 0), 15)
        if floor_log2 + 11 <= 0:
            exponent = 0
            mantissa = np.rint(value / 2.0**-10 * 16)
        else:
            mantissa = np.rint((value / 2.0**floor_log2 - 1) * 16)
        codes.append(exponent << 4 | int(min(max(mantissa, 0), 15)))
    return np.array(codes, np.uint8).reshape(np.shape(values))


def store(values, kind):
    """Float values as the bytes of `kind`, and the values they stand for."""
    if kind == "fp32":
        stored = np.asarray(values, F32)
        return stored.tobytes(), stored.astype(F64)
    if kind == "fp16":
        stored = to_fp16(values)
        return stored.tobytes(), stored.astype(F64)
    bits = to_bf16_bits(values)
    return bits.tobytes(), from_bf16_bits(bits).astype(F64)


# kbit.


def kbit_quantize(matrix, codebook):
    """Codes [n, k], and the exact fp32 absmax [n, k / 32]."""
    n, k = matrix.shape
    blocks = matrix.astype(F32).reshape(n, k // 32, 32)
    absmax = np.abs(blocks).max(axis=2)
    divisor = np.maximum(absmax, F32(1e-8))[:, :, None]
    normalized = (blocks / divisor).astype(F32)
    distance = np.abs(normalized[..., None] - codebook.astype(F32))
    return distance.argmin(axis=3).astype(np.uint8).reshape(n, k), absmax


def kbit_words(codes, bits):
    """Bit planes [n, k / 32, bits] of codes [n, k]."""
    n, k = codes.shape
    blocks = codes.reshape(n, k // 32, 32).astype(np.uint64)
    words = np.zeros((n, k // 32, bits), np.uint64)
    for plane in range(bits):
        for element in range(32):
            bit = blocks[:, :, element] >> np.uint64(plane) & np.uint64(1)
            words[:, :, plane] |= bit << np.uint64(element)
    return words.astype("<u4")


def kbit_tile(per_block):
    """[n, k / 32, ...] reordered to [k_tile][n_tile][col][kb][...]."""
    n, blocks = per_block.shape[:2]
    rest = per_block.shape[2:]
    k_tiles = (blocks + 1) // 2
    padded = np.zeros((n, k_tiles * 2) + rest, per_block.dtype)
    padded[:, :blocks] = per_block
    split = padded.reshape((n // 128, 128, k_tiles, 2) + rest)
    order = (2, 0, 1, 3) + tuple(range(4, 4 + len(rest)))
    return np.ascontiguousarray(split.transpose(order))


def kbit_weights(codes, codebook, scales):
    """Exact weights from codes, fp32 codebook and fp64 block scales."""
    return codebook.astype(F64)[codes] * np.repeat(scales, 32, axis=1)


# Q4_0.


def q4_0_quantize(matrix):
    """Codes [n, k] and fp16 scales [n, k / 32]."""
    n, k = matrix.shape
    blocks = matrix.astype(F32).reshape(n, k // 32, 32)
    first = np.abs(blocks).argmax(axis=2)[:, :, None]
    largest = np.take_along_axis(blocks, first, axis=2)
    d = (largest / F32(-8)).astype(F32)
    with np.errstate(divide="ignore", over="ignore"):
        inverse = (F32(1) / d).astype(F32)
    inverse = np.where(np.isfinite(inverse), inverse, F32(0))
    scaled = (blocks * inverse).astype(F32) + F32(8.5)
    codes = np.minimum(15, np.trunc(scaled)).astype(np.uint8)
    return codes.reshape(n, k), to_fp16(d[:, :, 0])


def q4_0_bytes(codes, scales):
    n, k = codes.shape
    blocks = codes.reshape(n, k // 32, 32)
    packed = blocks[:, :, :16] | blocks[:, :, 16:] << 4
    wire = b""
    for row in range(n):
        for block in range(k // 32):
            wire += scales[row, block].tobytes()
            wire += packed[row, block].astype(np.uint8).tobytes()
    return wire


def q4_0_weights(codes, scales):
    return (codes.astype(F64) - 8) * np.repeat(scales.astype(F64), 32, axis=1)


# Ternary.


def ternary_bytes(values, coding):
    n, k = values.shape
    if coding == "int8":
        return values.astype(np.int8).tobytes()
    offset = 1 if coding == "packed_012" else 2
    padded = np.zeros((n, (k + 3) // 4 * 4), np.uint8)
    padded[:, :k] = values + offset
    quads = padded.reshape(n, -1, 4)
    packed = sum(quads[:, :, i] << 2 * i for i in range(4))
    return packed.astype(np.uint8).tobytes()


def ternary_quantize(matrix):
    """Values -1, 0, 1 and one fp32 scale a row."""
    sums = np.cumsum(np.abs(matrix.astype(F64)), axis=1)[:, -1]  # in order
    scales = (sums / matrix.shape[1]).astype(F32)
    divisor = np.where(scales > 0, scales, F32(1)).astype(F32)[:, None]
    ratio = (matrix.astype(F32) / divisor).astype(F32)
    return np.clip(np.rint(ratio), -1, 1).astype(int), scales


# INT4.


def groups_of(k, group):
    return (k + group - 1) // group


def spread(per_group, k, group):
    """[n, groups] repeated to [n, k]."""
    return np.repeat(per_group, group, axis=1)[:, :k]


def int4_weights(codes, zeros, scales, group):
    k = codes.shape[1]
    zeros = spread(zeros.astype(F64), k, group)
    return (codes - zeros) * spread(scales, k, group)


def int4_plain_bytes(codes):
    n, k = codes.shape
    padded = np.zeros((n, (k + 1) // 2 * 2), np.uint8)
    padded[:, :k] = codes
    return (padded[:, 0::2] | padded[:, 1::2] << 4).tobytes()


def nibbles_to_int32(values):
    """[..., 8] nibbles to [...] int32, nibble 0 lowest."""
    words = np.zeros(values.shape[:-1], np.uint64)
    for i in range(8):
        words |= values[..., i].astype(np.uint64) << np.uint64(4 * i)
    return words.astype("<u4")


AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]


def gptq_codes(codes):
    """[n, k] to qweight [k / 8, n]."""
    n, k = codes.shape
    return nibbles_to_int32(codes.T.reshape(k // 8, 8, n).swapaxes(1, 2))


def gptq_zeros(zeros, version):
    """[n, groups] to qzeros [groups, n / 8]."""
    stored = zeros.astype(int) - (1 if version == 1 else 0)
    assert stored.min() >= 0 and stored.max() <= 15
    return nibbles_to_int32(stored.T.reshape(stored.shape[1], -1, 8))


def awq_pack(per_row):
    """[n, x] (codes or zeros) to [x, n / 8]."""
    columns = per_row.T.reshape(per_row.shape[1], -1, 8)
    return nibbles_to_int32(columns[:, :, AWQ_ORDER])


def int4_quantize(matrix, group, scale_kind, asymmetric):
    """Codes [n, k], zeros [n, groups] or None, scale bytes, fp64 scales."""
    n, k = matrix.shape
    matrix = matrix.astype(F32)
    group = group or k
    count = groups_of(k, group)
    parts = [matrix[:, g * group:(g + 1) * group] for g in range(count)]
    low = np.stack([part.min(axis=1) for part in parts], axis=1)
    high = np.stack([part.max(axis=1) for part in parts], axis=1)
    if asymmetric:
        low, high = np.minimum(low, F32(0)), np.maximum(high, F32(0))
        exact = ((high - low).astype(F32) / F32(15)).astype(F32)
    else:
        exact = (np.maximum(np.abs(low), np.abs(high)) / F32(7)).astype(F32)
    wire, scales = store(exact, scale_kind)
    divisor = np.where(exact > 0, exact, F32(1)).astype(F32)
    if asymmetric:
        zeros = np.minimum(np.rint((-low / divisor).astype(F32)), 15)
    else:
        zeros = np.full(low.shape, 8.0)
    steps = np.rint((matrix / spread(divisor, k, group)).astype(F32))
    codes = np.clip(steps + spread(zeros, k, group), 0, 15)
    return codes.astype(np.uint8), zeros.astype(np.uint8), wire, scales
