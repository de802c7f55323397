# SPDX-License-Identifier: Apache-2.0
"""Decodes ggml's blocks to fp32: Q4_0, Q8_0, Q4_K, Q5_K and Q6_K.

A K-quant block has 256 weights in 8 runs of 32, or 16 runs of 16 (Q6_K), each
with a scale and perhaps a minimum of its own. Every routine takes a block a row
as uint8 and gives a block a row as fp32, in ggml's order of operations, so that
the bits are those of its own decoder.
"""

from __future__ import annotations

from typing import Callable

import numpy as np

from qgemm.loading.sources import Array


def _half(blocks: Array) -> Array:
    """[blocks, 1] of the fp16 in two bytes of each block."""
    return np.ascontiguousarray(blocks).view("<f2").astype(np.float32)


def _nibbles(bytes_: Array, run: int) -> Array:
    """[blocks, runs, 2 * run]: of each run of bytes the low, then the high."""
    runs = bytes_.reshape(len(bytes_), -1, run)
    return np.concatenate((runs & 15, runs >> 4), axis=2)


def _q4_0(blocks: Array) -> Array:
    codes = _nibbles(blocks[:, 2:], 16).reshape(len(blocks), 32)
    return _half(blocks[:, :2]) * (codes.astype(np.float32) - 8)


def _q8_0(blocks: Array) -> Array:
    codes = blocks[:, 2:].view(np.int8).astype(np.float32)
    return codes * _half(blocks[:, :2])


def _scales_and_minima(packed: Array) -> tuple[Array, Array]:
    """[blocks, 8, 1] of each, 6 bits, from the 12 bytes of a K-quant block.

    Runs 0 to 3 have theirs in the low 6 bits of bytes 0 to 3 and 4 to 7; runs 4
    to 7 have 4 bits in bytes 8 to 11 and 2 in the high bits of the others.
    """
    low, high, mixed = packed[:, 0:4], packed[:, 4:8], packed[:, 8:12]
    scales = np.concatenate(
        (low & 63, (mixed & 15) | ((low >> 6) << 4)), axis=1)
    minima = np.concatenate(
        (high & 63, (mixed >> 4) | ((high >> 6) << 4)), axis=1)
    return (scales.astype(np.float32)[:, :, None],
            minima.astype(np.float32)[:, :, None])


def _with_minima(blocks: Array, codes: Array) -> Array:
    """codes * scale - minimum; codes [blocks, 8, 32]."""
    scales, minima = _scales_and_minima(blocks[:, 4:16])
    scales = _half(blocks[:, 0:2])[:, :, None] * scales
    minima = _half(blocks[:, 2:4])[:, :, None] * minima
    return (scales * codes.astype(np.float32) - minima).reshape(-1, 256)


def _q4_k(blocks: Array) -> Array:
    codes = _nibbles(blocks[:, 16:144], 32).reshape(-1, 8, 32)
    return _with_minima(blocks, codes)


def _q5_k(blocks: Array) -> Array:
    codes = _nibbles(blocks[:, 48:176], 32).reshape(-1, 8, 32)
    shifts = np.arange(8, dtype=np.uint8)[None, :, None]
    fifth = (blocks[:, None, 16:48] >> shifts) & 1
    return _with_minima(blocks, codes | (fifth << 4))


def _q6_k(blocks: Array) -> Array:
    # A half of 128 weights has 64 bytes of low bits and 32 of high ones.
    low = _nibbles(blocks[:, 0:128], 64).reshape(-1, 2, 4, 32)
    shifts = np.array([0, 2, 4, 6], np.uint8)[None, None, :, None]
    high = (blocks[:, 128:192].reshape(-1, 2, 1, 32) >> shifts) & 3
    codes = (low | (high << 4)).astype(np.int8) - np.int8(32)
    scales = (blocks[:, 192:208].view(np.int8).astype(np.float32) *
              _half(blocks[:, 208:210]))
    values = codes.reshape(-1, 16, 16).astype(np.float32)
    return (scales[:, :, None] * values).reshape(-1, 256)


_DECODERS: dict[str, tuple[int, Callable[[Array], Array]]] = {
    "Q4_0": (18, _q4_0), "Q8_0": (34, _q8_0), "Q4_K": (144, _q4_k),
    "Q5_K": (176, _q5_k), "Q6_K": (210, _q6_k),
}
DECODED_TYPES = tuple(_DECODERS)


def decode(kind: str, data: Array, shape: tuple[int, ...]) -> Array:
    """fp32 of `shape` from whole blocks; kind is one of DECODED_TYPES.

    Decodes panels, so that what lies between stays small.
    """
    block_bytes, decoder = _DECODERS[kind]
    blocks = data.reshape(-1, block_bytes)
    panel = 1 << 12
    parts = [decoder(blocks[i:i + panel])
             for i in range(0, len(blocks), panel)]
    if not parts:
        return np.zeros(shape, np.float32)
    return np.concatenate(parts).reshape(shape)
