# SPDX-License-Identifier: Apache-2.0
"""Reads a safetensors file: 8 bytes of header size, a JSON header, the data."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from qgemm.loading.sources import CheckpointError, File
from qgemm.loading.tensors import (MAX_NAME, NUMPY_TYPES, Tensor, check_no_overlap,
                                   check_shape, element_count)

MAX_HEADER_BYTES = 100 << 20
# Bytes of an element; the types that NumPy has not are listed, not read.
TYPE_BYTES = {name: np.dtype(kind).itemsize
              for name, kind in NUMPY_TYPES.items()}
TYPE_BYTES.update({"F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1})


def read_safetensors(path: str) -> dict[str, Tensor]:
    """Maps each tensor's name to the tensor; the metadata is left out."""
    file = File(path)
    header, begin = _read_header(file)
    tensors = {name: _read_entry(file, name, entry, begin)
               for name, entry in header.items() if name != "__metadata__"}
    check_no_overlap(tensors)
    return tensors


def _read_header(file: File) -> tuple[dict[str, Any], int]:
    """The header and the offset of the data."""
    path = file.path
    if file.size < 8:
        raise CheckpointError(f"{path}: {file.size} bytes are no safetensors")
    size = int(file.read(0, 8).view("<u8")[0])
    if size > min(MAX_HEADER_BYTES, file.size - 8):
        raise CheckpointError(
            f"{path}: a header of {size} bytes, of a file of {file.size}")
    try:
        header = json.loads(file.read(8, size).tobytes().decode("utf-8"),
                            object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: the header is no JSON: "
                              f"{error}") from error
    if not isinstance(header, dict):
        raise CheckpointError(f"{path}: the header is no JSON object")
    return header, 8 + size


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object of which no name stands twice."""
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a name stands twice in an object")
    return made


def _read_entry(file: File, name: str, entry: Any, data: int) -> Tensor:
    """data: where the file's data begins."""
    where = f"{os.path.basename(file.path)}: tensor {name[:MAX_NAME]!r}"
    if not isinstance(entry, dict) or len(name) > MAX_NAME:
        raise CheckpointError(f"{where}: no entry of a tensor")
    kind = entry.get("dtype")
    if not isinstance(kind, str) or kind not in TYPE_BYTES:
        raise CheckpointError(f"{where}: unknown type {kind!r}")
    shape = check_shape(where, entry.get("shape"))
    offsets = entry.get("data_offsets")
    if (not isinstance(offsets, list) or len(offsets) != 2 or
            any(type(offset) is not int for offset in offsets)):
        raise CheckpointError(f"{where}: data_offsets are no two integers")
    begin, end = offsets
    if not 0 <= begin <= end <= file.size - data:
        raise CheckpointError(
            f"{where}: bytes {begin} to {end} of {file.size - data}")
    want = element_count(shape) * TYPE_BYTES[kind]
    if end - begin != want:
        raise CheckpointError(
            f"{where}: {end - begin} bytes for {kind} {list(shape)}, which "
            f"has {want}")
    return Tensor(name, kind, shape, file, data + begin, want, file.path)
