# SPDX-License-Identifier: Apache-2.0
"""Tensors of a checkpoint's files, which are read when they are used.

Files are other people's: every number in them is checked before it is used, and
what is wrong ends in a CheckpointError that names the file and the tensor.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Iterable, Iterator

import numpy as np

from qgemm.loading.sources import Array, CheckpointError, Source

MAX_DIMENSIONS = 8
MAX_EXTENT = 1 << 40  # of one dimension
MAX_NAME = 1024


# NumPy's types of those that it has; BF16 is carried as 16-bit integers.
NUMPY_TYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8",
    "I32": "<i4", "I16": "<i2", "I8": "|i1", "U64": "<u8", "U32": "<u4",
    "U16": "<u2", "U8": "|u1", "BOOL": "|u1",
}
FLOAT_TYPES = ("F32", "F16", "BF16")


@dataclass(frozen=True)
class Tensor:
    """A tensor as it lies in its file. What reads it raises CheckpointError if the
    file was shortened meanwhile. Thread-safe."""
    name: str
    type: str               # F32, BF16, I32, Q4_0, ...
    shape: tuple[int, ...]  # rows first
    source: Source
    begin: int              # of its bytes in the source
    nbytes: int
    file: str

    def pieces(self, size: int) -> Iterator[memoryview]:
        """Its bytes, of which `size` are in memory: formats.Section."""
        buffer: Array = np.empty(min(size, self.nbytes), np.uint8)
        for begin in range(0, self.nbytes, size):
            piece = buffer[:self.nbytes - begin]
            self.source.read_into(self.begin + begin, piece)
            yield memoryview(piece)

    def data(self) -> Array:
        """Its bytes, uint8, in memory."""
        return self.source.read(self.begin, self.nbytes)

    def array(self) -> Array:
        """The elements in NumPy's type, of `shape`; BF16 as <u2."""
        if self.type not in NUMPY_TYPES:
            raise CheckpointError(
                f"{self}: elements of type {self.type} are blocks")
        return self.data().view(NUMPY_TYPES[self.type]).reshape(self.shape)

    def row(self, index: int) -> "Tensor":
        """One row, from 0 on, of a tensor that has some and no blocks."""
        size = self.nbytes // self.shape[0]
        return Tensor(self.name, self.type, self.shape[1:], self.source,
                      self.begin + index * size, size, self.file)

    def float32(self) -> Array:
        """The elements as fp32, exactly; F64 and integers are refused."""
        if self.type == "BF16":
            return (self.array().astype(np.uint32) << 16).view(np.float32)
        if self.type not in FLOAT_TYPES:
            raise CheckpointError(
                f"{self}: type {self.type}, expected one of "
                f"{', '.join(FLOAT_TYPES)}")
        return self.array().astype(np.float32)

    def __str__(self) -> str:
        return f"{os.path.basename(self.file)}: tensor {self.name!r}"


def check_shape(where: str, shape: object) -> tuple[int, ...]:
    """The shape as a tuple, if it is a list of few extents of sane size."""
    if not isinstance(shape, (list, tuple)) or len(shape) > MAX_DIMENSIONS:
        raise CheckpointError(
            f"{where}: the shape is no list of up to {MAX_DIMENSIONS} extents")
    for extent in shape:
        if type(extent) is not int or not 0 <= extent <= MAX_EXTENT:
            raise CheckpointError(
                f"{where}: extent {extent!r} is not within 0 to {MAX_EXTENT}")
    return tuple(shape)


def element_count(shape: Iterable[int]) -> int:
    """The product of the extents; of Python's integers, it cannot overflow."""
    count = 1
    for extent in shape:
        count *= extent
    return count


def check_no_overlap(tensors: dict[str, Tensor]) -> None:
    """Raises if two tensors of a file share bytes."""
    end, before = 0, ""
    for tensor in sorted(tensors.values(), key=lambda t: (t.begin, t.nbytes)):
        if tensor.nbytes == 0:
            continue
        if tensor.begin < end:
            raise CheckpointError(f"{tensor}: shares bytes with {before!r}")
        end, before = tensor.begin + tensor.nbytes, tensor.name
