# SPDX-License-Identifier: Apache-2.0
"""Tensors of a checkpoint's files, mapped, not read.

Files are other people's: every number in them is checked before it is used, and
what is wrong ends in a CheckpointError that names the file and the tensor.
"""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass
from typing import Any, Iterable

import numpy as np

Array = Any  # a NumPy array; its shape stands where it is made
MAX_DIMENSIONS = 8
MAX_EXTENT = 1 << 40  # of one dimension
MAX_NAME = 1024


class CheckpointError(ValueError):
    """A file is not what it says it is, or holds what cannot be loaded."""


# NumPy's types of those that it has; BF16 is carried as 16-bit integers.
NUMPY_TYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8",
    "I32": "<i4", "I16": "<i2", "I8": "|i1", "U64": "<u8", "U32": "<u4",
    "U16": "<u2", "U8": "|u1", "BOOL": "|u1",
}
FLOAT_TYPES = ("F32", "F16", "BF16")


@dataclass(frozen=True)
class Tensor:
    """A tensor as it lies in its file.

    data is a read-only uint8 view of the mapped file, which it keeps mapped. It
    is invalid if the file is shortened meanwhile.
    """
    name: str
    type: str               # F32, BF16, I32, Q4_0, ...
    shape: tuple[int, ...]  # rows first
    data: Array
    file: str

    @property
    def nbytes(self) -> int:
        return int(self.data.nbytes)

    def array(self) -> Array:
        """The elements in NumPy's type, of `shape`; BF16 as <u2."""
        if self.type not in NUMPY_TYPES:
            raise CheckpointError(
                f"{self}: elements of type {self.type} are blocks")
        return self.data.view(NUMPY_TYPES[self.type]).reshape(self.shape)

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


def map_file(path: str) -> Array:
    """The file's bytes as a read-only uint8 array over a mapping."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size == 0:
                raise CheckpointError(f"{path}: the file is empty")
            mapped = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
    except (IsADirectoryError, FileNotFoundError, PermissionError) as error:
        raise CheckpointError(f"{path}: {error.strerror}") from error
    return np.frombuffer(mapped, np.uint8)


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


def check_no_overlap(tensors: dict[str, Tensor],
                     begins: dict[str, int]) -> None:
    """Raises if two tensors share bytes. begins: offsets of their data."""
    end, before = 0, ""
    for name in sorted(tensors, key=lambda name: (
            begins[name], tensors[name].nbytes)):
        if tensors[name].nbytes == 0:
            continue
        if begins[name] < end:
            raise CheckpointError(
                f"{tensors[name]}: shares bytes with {before!r}")
        end, before = begins[name] + tensors[name].nbytes, name


