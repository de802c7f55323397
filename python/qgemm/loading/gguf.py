# SPDX-License-Identifier: Apache-2.0
"""Reads a GGUF file of version 2 or 3: metadata, tensor table, data."""

from __future__ import annotations

import os
import struct
from typing import Any, NamedTuple

from qgemm.loading.sources import CheckpointError, File, Window
from qgemm.loading.tensors import (MAX_NAME, Tensor, check_no_overlap, check_shape,
                                   element_count)

MAGIC = b"GGUF"
VERSIONS = (2, 3)
DEFAULT_ALIGNMENT = 32
MAX_ALIGNMENT = 1 << 16
MAX_DIMENSIONS = 4
MAX_STRING = 1 << 24  # of metadata: chat templates, vocabularies' entries
MAX_NESTING = 4       # of arrays in arrays

# Metadata's scalar types by number, as struct has them.
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?",
           10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9


class BlockType(NamedTuple):
    """A tensor type: `elements` numbers in `bytes`."""
    name: str
    elements: int
    bytes: int


# By number, those that files have; a number that is missing is unknown.
TYPES = {
    0: BlockType("F32", 1, 4), 1: BlockType("F16", 1, 2),
    2: BlockType("Q4_0", 32, 18), 3: BlockType("Q4_1", 32, 20),
    6: BlockType("Q5_0", 32, 22), 7: BlockType("Q5_1", 32, 24),
    8: BlockType("Q8_0", 32, 34), 9: BlockType("Q8_1", 32, 40),
    10: BlockType("Q2_K", 256, 84), 11: BlockType("Q3_K", 256, 110),
    12: BlockType("Q4_K", 256, 144), 13: BlockType("Q5_K", 256, 176),
    14: BlockType("Q6_K", 256, 210), 15: BlockType("Q8_K", 256, 292),
    16: BlockType("IQ2_XXS", 256, 66), 17: BlockType("IQ2_XS", 256, 74),
    18: BlockType("IQ3_XXS", 256, 98), 19: BlockType("IQ1_S", 256, 50),
    20: BlockType("IQ4_NL", 32, 18), 21: BlockType("IQ3_S", 256, 110),
    22: BlockType("IQ2_S", 256, 82), 23: BlockType("IQ4_XS", 256, 136),
    24: BlockType("I8", 1, 1), 25: BlockType("I16", 1, 2),
    26: BlockType("I32", 1, 4), 27: BlockType("I64", 1, 8),
    28: BlockType("F64", 1, 8), 29: BlockType("IQ1_M", 256, 56),
    30: BlockType("BF16", 1, 2), 34: BlockType("TQ1_0", 256, 54),
    35: BlockType("TQ2_0", 256, 66), 39: BlockType("MXFP4", 32, 17),
    40: BlockType("NVFP4", 64, 36), 41: BlockType("Q1_0", 128, 18),
}


class GgufFile(NamedTuple):
    metadata: dict[str, Any]  # scalars and strings; arrays are left out
    tensors: dict[str, Tensor]


def read_gguf(path: str) -> GgufFile:
    """Tensors have their rows first, unlike in the file."""
    cursor = _Cursor(File(path))
    tensor_count, value_count = _read_start(cursor)
    metadata = {}
    for _ in range(value_count):
        key = cursor.string(MAX_NAME)
        kind = cursor.number("I")
        value = cursor.value(kind, key)
        if kind != ARRAY:
            metadata[key] = value
    tensors = _read_tensors(cursor, tensor_count, _alignment(path, metadata))
    return GgufFile(metadata, tensors)


class _Cursor:
    """Reads the file from its beginning; nothing behind its end."""

    def __init__(self, file: File):
        self.file = file
        self.path = file.path
        self.offset = 0
        self._window = Window(file)

    def error(self, text: str) -> CheckpointError:
        return CheckpointError(
            f"{os.path.basename(self.path)}: at byte {self.offset}: {text}")

    @property
    def left(self) -> int:
        return self.file.size - self.offset

    def skip(self, count: int) -> int:
        """Where the bytes that are passed over begin."""
        if count > self.left:
            raise self.error(f"{count} bytes wanted, {self.left} are left")
        self.offset += count
        return self.offset - count

    def take(self, count: int) -> bytes:
        return self._window.read(self.skip(count), count)

    def number(self, kind: str) -> Any:
        size = struct.calcsize("<" + kind)
        return struct.unpack("<" + kind, self.take(size))[0]

    def string(self, limit: int) -> str:
        size = self.number("Q")
        if size > limit:
            raise self.error(f"a string of {size} bytes; {limit} is the limit")
        try:
            return str(self.take(size), "utf-8")
        except UnicodeDecodeError as error:
            raise self.error(f"a string is no UTF-8: {error}") from error

    def value(self, kind: int, key: str, depth: int = 0) -> Any:
        """A metadata value; None for an array, which is passed over."""
        if kind in SCALARS:
            return self.number(SCALARS[kind])
        if kind == STRING:
            return self.string(MAX_STRING)
        if kind != ARRAY or depth == MAX_NESTING:
            raise self.error(f"{key!r} has a value of unknown type {kind}")
        element, count = self.number("I"), self.number("Q")
        if element in SCALARS:
            self.skip(count * struct.calcsize("<" + SCALARS[element]))
            return None
        # Each takes 8 bytes or more, which bounds the loop by the file's size.
        if count > self.left // 8:
            raise self.error(f"{key!r} has {count} values, which do not fit")
        for _ in range(count):
            if element == STRING:
                self.skip(self.number("Q"))
            else:
                self.value(element, key, depth + 1)
        return None


def _read_start(cursor: _Cursor) -> tuple[int, int]:
    """The numbers of tensors and of metadata values."""
    if cursor.left < 24 or cursor.take(4) != MAGIC:
        raise CheckpointError(f"{cursor.path}: this is no GGUF file")
    version = cursor.number("I")
    if version not in VERSIONS:
        raise cursor.error(f"version {version} of GGUF; 2 and 3 are read, "
                           "little-endian")
    tensors, values = cursor.number("Q"), cursor.number("Q")
    if tensors > cursor.left // 24 or values > cursor.left // 13:
        raise cursor.error(f"{tensors} tensors and {values} values of metadata "
                           "do not fit into the file")
    return tensors, values


def _alignment(path: str, metadata: dict[str, Any]) -> int:
    alignment = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
    if (type(alignment) is not int or not 1 <= alignment <= MAX_ALIGNMENT or
            alignment & (alignment - 1) != 0):
        raise CheckpointError(
            f"{path}: general.alignment {alignment!r} is no power of two up to "
            f"{MAX_ALIGNMENT}")
    return alignment


def _read_tensors(cursor: _Cursor, count: int,
                  alignment: int) -> dict[str, Tensor]:
    table: dict[str, tuple[BlockType, tuple[int, ...], int]] = {}
    for _ in range(count):
        name = cursor.string(MAX_NAME)
        if name in table:
            raise cursor.error(f"tensor {name!r} stands twice")
        table[name] = _read_entry(cursor, name, alignment)
    begin = -(-cursor.offset // alignment) * alignment
    left = max(0, cursor.file.size - begin)
    tensors = {}
    for name, (kind, shape, offset) in table.items():
        size = element_count(shape) // kind.elements * kind.bytes
        if offset + size > left:
            raise CheckpointError(
                f"{cursor.path}: tensor {name!r}: {size} bytes at {offset}, of "
                f"{left} bytes of data")
        tensors[name] = Tensor(name, kind.name, shape, cursor.file, begin + offset,
                               size, cursor.path)
    check_no_overlap(tensors)
    return tensors


def _read_entry(cursor: _Cursor, name: str, alignment: int
                ) -> tuple[BlockType, tuple[int, ...], int]:
    """The tensor's type, its shape with the rows first, and its offset."""
    dimensions = cursor.number("I")
    if dimensions > MAX_DIMENSIONS:
        raise cursor.error(f"tensor {name!r} has {dimensions} dimensions; "
                           f"{MAX_DIMENSIONS} is the limit")
    extents = [cursor.number("Q") for _ in range(dimensions)]
    shape = check_shape(f"tensor {name!r}", extents[::-1])
    number, offset = cursor.number("I"), cursor.number("Q")
    kind = TYPES.get(number)
    if kind is None:
        raise cursor.error(f"tensor {name!r} has the unknown type {number}")
    if (shape[-1] if shape else 1) % kind.elements != 0:
        raise cursor.error(
            f"tensor {name!r}: rows of {shape[-1] if shape else 1} are no "
            f"whole blocks of {kind.name}, {kind.elements} each")
    if offset % alignment != 0:
        raise cursor.error(f"tensor {name!r}: offset {offset} is no multiple "
                           f"of {alignment}")
    return kind, shape, offset
