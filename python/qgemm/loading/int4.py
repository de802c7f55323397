# SPDX-License-Identifier: Apache-2.0
"""Reads GPTQ's and AWQ's layers: what quantization_config and the tensors say.

Both store W transposed, eight codes in an int32: qweight [k / 8, n] (GPTQ) or
[k, n / 8] (AWQ), qzeros [groups, n / 8], scales [groups, n], and GPTQ g_idx [k].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping

import numpy as np

from qgemm.loading.layers import Int4Layer
from qgemm.loading.sources import CheckpointError
from qgemm.loading.tensors import FLOAT_TYPES, Tensor

GROUP_SIZES = (32, 64, 128)
PARTS = ("qweight", "qzeros", "scales", "g_idx", "bias")


@dataclass(frozen=True)
class Int4Config:
    """The quantization_config of a GPTQ or AWQ checkpoint."""
    layout: str      # gptq_v1, gptq_v2 or awq
    group_size: int  # elements; 0: all of k


def read_config(config: Mapping[str, Any]) -> Int4Config:
    """Raises CheckpointError if it asks for what the server does not read."""
    method = config.get("quant_method")
    bits = config.get("bits", config.get("w_bit"))
    size = config.get("group_size", config.get("q_group_size", 128))
    if method not in ("gptq", "awq"):
        raise CheckpointError(
            f"quantization_config: quant_method {method!r}; gptq and awq are "
            "read")
    if bits != 4:
        raise CheckpointError(f"quantization_config: bits {bits!r}; 4 is read")
    if type(size) is not int or size not in (-1,) + GROUP_SIZES:
        raise CheckpointError(
            f"quantization_config: group_size {size!r}; 32, 64, 128 and -1 "
            "(all of k) are read")
    layout = _awq_layout(config) if method == "awq" else _gptq_layout(config)
    return Int4Config(layout, max(size, 0))


def _awq_layout(config: Mapping[str, Any]) -> str:
    version = config.get("version", "gemm")
    if not isinstance(version, str) or version.lower() != "gemm":
        raise CheckpointError(
            f"quantization_config: AWQ's version {version!r}; gemm is read")
    return "awq"


def _gptq_layout(config: Mapping[str, Any]) -> str:
    """v1 stores zeros less one, v2 as they are; v1 unless it is said."""
    kind = config.get("checkpoint_format") or "gptq"
    if kind not in ("gptq", "gptq_v2"):
        raise CheckpointError(
            f"quantization_config: checkpoint_format {kind!r}; gptq and gptq_v2 "
            "are read")
    return "gptq_v2" if kind == "gptq_v2" else "gptq_v1"


def make_int4_layer(base: str, tensors: Mapping[str, Tensor],
                    config: Int4Config) -> Int4Layer:
    """The layer of base.qweight and its like.

    Raises CheckpointError if a tensor is missing or not as the others imply."""
    parts = {part: tensors[f"{base}.{part}"] for part in PARTS
             if f"{base}.{part}" in tensors}
    for part in PARTS[:3]:
        if part not in parts:
            raise CheckpointError(f"layer {base!r} has no {base}.{part}")
    weight = parts["qweight"]
    if weight.type != "I32" or len(weight.shape) != 2:
        raise CheckpointError(f"{weight}: {weight.type} {list(weight.shape)} is "
                              "no I32 matrix")
    rows, columns = weight.shape
    k, n = (rows, 8 * columns) if config.layout == "awq" else (8 * rows, columns)
    group_size = config.group_size if config.group_size < k else 0
    groups = _check_shapes(parts, n, k, group_size)
    index = parts.get("g_idx") if config.layout != "awq" else None
    if index is not None and _is_plain(index, group_size or k, groups):
        index = None
    names = tuple(part.name for part in parts.values())
    return Int4Layer(names, n, k, config.layout.split("_")[0],
                     parts.get("bias"), config.layout, group_size, weight,
                     parts["qzeros"], parts["scales"], index)


def _check_shapes(parts: Mapping[str, Tensor], n: int, k: int,
                  group_size: int) -> int:
    """The number of groups; raises if a tensor does not fit [n, k]."""
    size = group_size or k
    if n == 0 or k == 0 or n % 8 or k % size:
        raise CheckpointError(
            f"{parts['qweight']}: n = {n}, k = {k} and groups of {size}: n must "
            "be a multiple of 8, k of the group")
    groups = k // size
    want = {"qzeros": (("I32",), (groups, n // 8)),
            "scales": (FLOAT_TYPES, (groups, n)), "g_idx": (("I32",), (k,)),
            "bias": (FLOAT_TYPES, (n,))}
    for part, (kinds, shape) in want.items():
        tensor = parts.get(part)
        if tensor is not None and (
                tensor.type not in kinds or tensor.shape != shape):
            raise CheckpointError(
                f"{tensor}: {tensor.type} {list(tensor.shape)}; "
                f"{'/'.join(kinds)} {list(shape)} belongs to n = {n}, k = {k} "
                f"and groups of {size}")
    return groups


def _is_plain(index: Tensor, group_size: int, groups: int) -> bool:
    """True if column i is in group i // group_size. Raises if a group does not
    exist, or has other than group_size columns."""
    values = index.array()
    if values.min() < 0 or values.max() >= groups:
        raise CheckpointError(f"{index}: a group outside 0 to {groups - 1}")
    if (np.bincount(values, minlength=groups) != group_size).any():
        raise CheckpointError(
            f"{index}: a group with other than {group_size} columns")
    return bool((values == np.arange(len(values)) // group_size).all())


