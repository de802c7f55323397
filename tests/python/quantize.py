# SPDX-License-Identifier: Apache-2.0
"""Quantizers and packers in numpy, from docs/formats.md alone.

Each returns what a server must hold for the fp32 weights w[n, k]: the
dequantized matrix in float64, and for formats that clients pack themselves the
section bytes.
"""

import numpy as np

CODEBOOK4_POSITIVE = np.array(
    [0.0420953855, 0.127340987, 0.215946302, 0.310904741, 0.416818887,
     0.542209148, 0.707568824, 1], np.float32)
CODEBOOK4 = np.concatenate([-CODEBOOK4_POSITIVE[::-1], CODEBOOK4_POSITIVE])


def e4m4_encode(values):
    """uint8 codes of positive fp32 values of at least 2^-10 and below 32."""
    mantissa, exponent = np.frexp(values.astype(np.float64))
    exponent = exponent - 1  # value = (2 * mantissa) * 2^exponent
    code = np.clip(np.rint((2 * mantissa - 1) * 16), 0, 15).astype(int)
    stored = exponent + 11
    assert stored.min() >= 1 and stored.max() <= 15
    return (stored << 4 | code).astype(np.uint8)


def e4m4_decode(codes):
    exponent = (codes >> 4).astype(int)
    mantissa = (codes & 15).astype(np.float64)
    normal = np.ldexp(1 + mantissa / 16, exponent - 11)
    return np.where(exponent > 0, normal, np.ldexp(mantissa / 16, -10))


def kbit4(w):
    """Returns (float64 matrix, sections) with the default codebook."""
    n, k = w.shape
    blocks = w.reshape(-1, 32)
    absmax = np.abs(blocks).max(axis=1)
    normalized = blocks / np.maximum(absmax, np.float32(1e-8))[:, None]
    codes = np.abs(normalized[:, :, None] - CODEBOOK4).argmin(axis=2)
    scales = e4m4_encode(absmax)
    matrix = CODEBOOK4[codes].astype(np.float64) * e4m4_decode(scales)[:, None]
    planes = np.zeros((len(blocks), 4), "<u4")
    for plane in range(4):
        bits = (codes >> plane & 1).astype(np.uint32)
        planes[:, plane] = (bits << np.arange(32, dtype=np.uint32)).sum(
            axis=1, dtype=np.uint32)
    sections = [("scales", scales.tobytes()), ("codes", planes.tobytes())]
    return matrix.reshape(n, k), sections


def q4_0(w):
    """Returns the float64 matrix of ggml's reference quantizer."""
    blocks = w.reshape(-1, 32)
    extreme = np.take_along_axis(
        blocks, np.abs(blocks).argmax(axis=1)[:, None], axis=1)
    d = extreme / np.float32(-8)
    inverse = np.divide(np.float32(1), d, out=np.zeros_like(d), where=d != 0)
    codes = np.minimum(15, (blocks * inverse + np.float32(8.5)).astype(int))
    stored = d.astype(np.float16).astype(np.float64)
    return ((codes - 8) * stored).reshape(w.shape)


def int4(w, group):
    """Returns (float64 matrix, sections) of the symmetric plain layout."""
    n, k = w.shape
    groups = w.reshape(n, k // group, group)
    scales = (np.abs(groups).max(axis=2) / np.float32(7)).astype(np.float32)
    codes = np.clip(np.rint(groups / scales[:, :, None]) + 8, 0, 15)
    stored = scales.astype(np.float16)
    matrix = (codes - 8) * stored.astype(np.float64)[:, :, None]
    nibbles = codes.reshape(n, k).astype(np.uint8)
    packed = nibbles[:, 0::2] | nibbles[:, 1::2] << 4
    sections = [("scales", stored.astype("<f2").tobytes()),
                ("codes", packed.tobytes())]
    return matrix.reshape(n, k), sections


def ternary(w):
    """Returns (float64 matrix, sections) with int8 codes, a scale a row."""
    scales = np.abs(w).astype(np.float64).mean(axis=1).astype(np.float32)
    codes = np.clip(np.rint(w / scales[:, None]), -1, 1)
    matrix = codes * scales.astype(np.float64)[:, None]
    sections = [("scales", scales.astype("<f4").tobytes()),
                ("codes", codes.astype(np.int8).tobytes())]
    return matrix, sections


def q8_1(a):
    """fp activations quantized to Q8_1 and back, in float64."""
    blocks = a.astype(np.float32).reshape(-1, 32)
    d = (np.abs(blocks).max(axis=1) / np.float32(127))[:, None]
    steps = np.divide(blocks, d, out=np.zeros_like(blocks), where=d != 0)
    codes = np.trunc(steps + np.copysign(np.float32(0.5), steps))
    return (codes * d.astype(np.float64)).reshape(a.shape)


def to_bf16(values):
    """fp32 values rounded to nearest even, as uint16."""
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2")


def from_bf16(halves):
    return (halves.astype(np.uint32) << 16).view(np.float32)
