# SPDX-License-Identifier: Apache-2.0
"""The formats' quantizers in NumPy: the same bytes as the server's and the C++
client's make of the same values (docs/formats.md has the formulas).

They work a panel of rows at a time, so that what they hold beside weights and
result stays small.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Iterator

import numpy as np

from qgemm import arrays
from qgemm.formats import BLOCK, Int4, Kbit, Q4_0, Quantized, Ternary

F32 = np.float32
Sections = dict[str, Any]
_PANEL_ELEMENTS = 1 << 20
_SMALLEST_ABSMAX = F32(1e-8)

# The positive half of the default codebook of each width (docs/formats.md#kbit).
_CODEBOOK_HALVES = {
    2: (0.276993573, 1),
    3: (0.102541275, 0.318603665, 0.578276932, 1),
    4: (0.0420953855, 0.127340987, 0.215946302, 0.310904741, 0.416818887,
        0.542209148, 0.707568824, 1),
    5: (0.0181886554, 0.0546781458, 0.0915090814, 0.128925994, 0.167200953,
        0.206649229, 0.247651234, 0.290684968, 0.336377233, 0.385589212,
        0.43957144, 0.500268459, 0.570998311, 0.658254206, 0.778104544, 1),
}


def quantize(w: arrays.Operand, format: Quantized) -> tuple[Quantized, Sections]:
    """Packs weights [n, k]; returns the format that the sections have, which is
    kbit with fp32 scales where E4M4 does not hold them, and the sections.

    ValueError: a weight is NaN or infinite, or a scale beyond its type."""
    if isinstance(format, Kbit):
        return _kbit(w, format)
    if isinstance(format, Q4_0):
        return format, {"codes": _joined(w, _q4_0_panel)[0]}
    if isinstance(format, Ternary):
        pack = functools.partial(_ternary_panel, coding=format.coding)
        if format.tensor_wide_scale:
            raise ValueError("tensor_wide_scale = True; the quantizer makes a scale "
                             "a row")
        scales, codes = _joined(w, pack)
        return format, {"scales": scales, "codes": codes}
    if format.layout != "plain":
        raise ValueError(f"layout = {format.layout}; the quantizer makes plain")
    parts = _joined(w, functools.partial(_int4_panel, format=format))
    names = ("scales", "zeros", "codes") if format.zeros else ("scales", "codes")
    return format, dict(zip(names, parts))


def _panels(w: arrays.Operand) -> Iterator[Any]:
    """The rows in fp32, some at a time, all finite."""
    n, k = w.shape
    rows = max(1, _PANEL_ELEMENTS // k)
    for begin in range(0, n, rows):
        part = arrays.Operand(w.elements[begin:begin + rows], w.type)
        panel = part.as_float32()
        if not np.isfinite(panel).all():
            row, column = np.argwhere(~np.isfinite(panel))[0]
            raise ValueError(f"weights: row {begin + row}, column {column} = "
                             f"{panel[row, column]}: must be finite")
        yield panel


def _joined(w: arrays.Operand, pack: Callable[[Any], tuple[Any, ...]]) -> list[Any]:
    """What `pack` makes of each panel, one behind the other."""
    return [np.concatenate(parts) for parts in zip(*map(pack, _panels(w)))]


def _blocks(panel: Any) -> Any:
    if panel.shape[1] % BLOCK:
        raise ValueError(f"k = {panel.shape[1]} is not a multiple of {BLOCK}")
    return panel.reshape(-1, BLOCK)


def _stored(scales: Any, type: str) -> Any:
    """Scales in their type."""
    with np.errstate(over="ignore"):
        stored = arrays.Operand(scales, "fp32").as_type(type)
        if not np.isfinite(stored.as_float32()).all():
            raise ValueError(f"weights: a scale of {scales.max()} is too large "
                             f"for {type}")
    return stored.elements


# kbit ---------------------------------------------------------------------------


def default_codebook(bits: int) -> Any:
    half = np.array(_CODEBOOK_HALVES[bits], F32)
    return np.concatenate([-half[::-1], half])


def _kbit(w: arrays.Operand, format: Kbit) -> tuple[Kbit, Sections]:
    if format.layout != "flat":
        raise ValueError(f"layout = {format.layout}; the quantizer makes flat")
    book = (default_codebook(format.bits) if format.codebook is None
            else np.array(format.codebook, F32))
    absmax, codes = _joined(w, functools.partial(
        _kbit_panel, bits=format.bits, nearest=_nearest(book)))
    kind = format.scale_type
    if kind == "e4m4" and not _fits_e4m4(absmax):
        kind = "fp32"
    scales = _e4m4(absmax) if kind == "e4m4" else _stored(absmax, kind)
    made = Kbit(format.bits, format.codebook, kind)
    section = {} if format.codebook is None else {"codebook": book}
    return made, {**section, "scales": scales, "codes": codes}


def _kbit_panel(panel: Any, bits: int, nearest: Callable[[Any], Any]) -> Any:
    """The exact absmax, and the bit planes, 4 bytes each, of each block."""
    blocks = _blocks(panel)
    absmax = np.abs(blocks).max(axis=1)
    codes = nearest(blocks / np.maximum(absmax, _SMALLEST_ABSMAX)[:, None])
    planes = np.empty((len(blocks), bits, 4), np.uint8)
    for plane in range(bits):
        planes[:, plane] = np.packbits(codes >> plane & 1, axis=1,
                                       bitorder="little")
    return absmax, planes


def _fits_e4m4(absmax: Any) -> bool:
    """True if no tensor_scale is needed (docs/formats.md#e4m4)."""
    used = absmax[absmax > 0]
    return not used.size or (used.max() <= 31 and used.min() >= 2.0**-10)


def _e4m4(values: Any) -> Any:
    """The codes of values that are 0 or from 2^-10 to 31."""
    fraction, exponent = np.frexp(values)  # fraction in [0.5, 1)
    mantissa = np.minimum(np.rint((2 * fraction - 1) * 16), 15)
    codes = (exponent + 10).astype(np.int32) << 4 | mantissa.astype(np.int32)
    return np.where(values > 0, codes, 0).astype(np.uint8)


def _nearest(book: Any) -> Callable[[Any], Any]:
    """The search for the first entry of least distance, in fp32.

    Between two neighbours of the sorted entries the choice changes once as a value
    grows, so that counting the thresholds below it finds its code; as long as the
    gaps outweigh the rounding of distances no other pair interferes."""
    values, first = np.unique(book, return_index=True)
    reach = 1.0 + float(np.abs(values).max())
    gaps = np.diff(values.astype(np.float64))
    if (gaps < reach * 2.0**-20).any():
        return functools.partial(_linear_search, book)
    thresholds = [_threshold(values[i], values[i + 1], first[i] < first[i + 1])
                  for i in range(len(values) - 1)]
    codes = first.astype(np.uint8)

    def search(v: Any) -> Any:
        above = np.zeros(v.shape, np.uint8)
        for threshold in thresholds:
            above += v > threshold
        return codes[above]

    return search


def _linear_search(book: Any, v: Any) -> Any:
    best = np.abs(v - book[0])
    codes = np.zeros(v.shape, np.uint8)
    for code in range(1, len(book)):
        distance = np.abs(v - book[code])
        codes[distance < best] = code
        np.minimum(best, distance, out=best)
    return codes


def _threshold(low: Any, high: Any, low_wins_ties: bool) -> Any:
    """The largest fp32 value from low to high that goes to low."""
    a, b = low, high
    while True:
        middle = F32((np.float64(low) + np.float64(high)) / 2)
        if middle in (low, high):
            middle = np.nextafter(low, high)
            if middle == high:
                return low
        to_a, to_b = middle - a, b - middle
        if to_a < to_b or (to_a == to_b and low_wins_ties):
            low = middle
        else:
            high = middle


# The others ---------------------------------------------------------------------


def _q4_0_panel(panel: Any) -> tuple[Any]:
    blocks = _blocks(panel)
    first = np.abs(blocks).argmax(axis=1)[:, None]
    d = np.take_along_axis(blocks, first, axis=1) / F32(-8)
    with np.errstate(divide="ignore", over="ignore"):
        inverse = F32(1) / d
    inverse[~np.isfinite(inverse)] = 0
    codes = np.minimum(blocks * inverse + F32(8.5), 15).astype(np.uint8)
    packed = np.empty((len(blocks), 18), np.uint8)
    packed[:, :2] = _stored(d, "fp16").view(np.uint8)
    packed[:, 2:] = codes[:, :16] | codes[:, 16:] << 4
    return (packed,)


def _ternary_panel(panel: Any, coding: str) -> tuple[Any, Any]:
    sums = np.cumsum(np.abs(panel), axis=1, dtype=np.float64)[:, -1]  # in order
    scales = (sums / panel.shape[1]).astype(F32)
    ratio = panel / np.where(scales == 0, F32(1), scales)[:, None]
    values = (ratio > 0.5).astype(np.int8) - (ratio < -0.5)
    if coding == "int8":
        return scales, values
    spare = -panel.shape[1] % 4
    stored = values.astype(np.uint8) + np.uint8(1 if coding == "packed_012" else 2)
    quads = np.pad(stored, ((0, 0), (0, spare))).reshape(len(panel), -1, 4)
    shifts = np.array([0, 2, 4, 6], np.uint8)
    return scales, np.bitwise_or.reduce(quads << shifts, axis=2)


def _int4_panel(panel: Any, format: Int4) -> tuple[Any, ...]:
    n, k = panel.shape
    group = format.group_size or k
    begins = np.arange(0, k, group)
    low = np.minimum.reduceat(panel, begins, axis=1)
    high = np.maximum.reduceat(panel, begins, axis=1)
    if format.zeros:
        low = np.minimum(low, F32(0))
        with np.errstate(over="ignore"):
            exact = (np.maximum(high, F32(0)) - low) / F32(15)
    else:
        exact = np.maximum(-low, high) / F32(7)
    scales = _stored(exact, format.scale_type)
    divisor = np.where(exact == 0, F32(1), exact)
    zeros = (np.minimum(np.rint(-low / divisor), F32(15)) if format.zeros
             else np.full(low.shape, F32(8)))
    steps = np.rint(panel / np.repeat(divisor, group, axis=1)[:, :k])
    steps += np.repeat(zeros, group, axis=1)[:, :k]
    codes = np.pad(np.clip(steps, 0, 15).astype(np.uint8), ((0, 0), (0, k % 2)))
    packed = codes[:, 0::2] | codes[:, 1::2] << 4
    return ((scales, zeros.astype(np.uint8), packed) if format.zeros
            else (scales, packed))
