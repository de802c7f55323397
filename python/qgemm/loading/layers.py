# SPDX-License-Identifier: Apache-2.0
"""A layer of a checkpoint: its tensors, its shape, and its upload's bytes.

Nothing is read or decoded before `encode`. A layer whose bytes the server reads as
they lie in the file is read piece by piece, while it is uploaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Optional, Union

import numpy as np

from qgemm import formats
from qgemm.loading.ggml_blocks import DECODED_TYPES, decode
from qgemm.loading.sources import Array, CheckpointError
from qgemm.loading.tensors import FLOAT_TYPES, Tensor

# Our names of float types, by the files'.
FLOAT_NAMES = {"F32": "fp32", "F16": "fp16", "BF16": "bf16"}
# The format that is nearest to a type which the server does not read.
NEAREST = {"Q8_0": "kbit5", "Q6_K": "kbit5", "Q5_K": "kbit5", "Q4_K": "kbit4"}
# The row of W that nibble i of an AWQ word belongs to.
AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)


class Upload(NamedTuple):
    """The arguments of Client.load_packed."""
    spec: formats.WeightSpec
    sections: dict[str, Any]


@dataclass(frozen=True)
class Layer:
    """W [n, k] and its bias, as the checkpoint has them."""
    tensors: tuple[str, ...]  # names, the bias's last
    n: int                    # output features
    k: int                    # input features
    kind: str                 # as the file has it: F16, Q6_K, gptq, ...
    bias: Optional[Tensor]

    @property
    def kept(self) -> Optional[formats.Format]:
        """The format in which the server reads the bytes as they are; None if
        it does not, so that they must be decoded."""
        raise NotImplementedError

    def _kept_sections(self) -> dict[str, Any]:
        """The sections of `kept`, the bias aside."""
        raise NotImplementedError

    def decoded(self) -> Array:
        """W in fp32."""
        raise NotImplementedError

    def dense(self, target: formats.Format) -> formats.Dense:
        """The wire format that has the server make `target` of this layer."""
        to: Any = target.to if isinstance(target, formats.Dense) else target
        return formats.Dense("fp32", to)

    def spec(self, target: Optional[formats.Format]) -> formats.WeightSpec:
        """The meaning of encode's bytes. target None keeps the file's.

        Raises ValueError if the format does not take the shape."""
        wire = self.kept if target is None else self.dense(target)
        if wire is None:
            raise ValueError(f"{self.kind} needs a format")
        spec = formats.WeightSpec(self.n, self.k, wire, self.bias is not None)
        spec.sizes()
        made = wire.to if isinstance(wire, formats.Dense) else None
        if made is not None and not isinstance(made, str):
            made.sizes(self.n, self.k)
        return spec

    def encode(self, target: Optional[formats.Format]) -> Upload:
        """The bytes to upload. Thread-safe."""
        spec = self.spec(target)
        sections = (self._kept_sections() if target is None else
                    self._dense_sections())
        if self.bias is not None:
            sections["bias"] = self.bias.float32()
        return Upload(spec, sections)

    def _dense_sections(self) -> dict[str, Any]:
        return {"codes": self.decoded()}

    def client_bytes(self, target: Optional[formats.Format]) -> int:
        """Bytes of the matrix that encode decodes, 0 for one that is kept."""
        return 0 if target is None else 4 * self.n * self.k


@dataclass(frozen=True)
class FloatLayer(Layer):
    """A matrix of F32, F16 or BF16."""
    weight: Tensor

    @property
    def kept(self) -> Optional[formats.Format]:
        return formats.Dense(FLOAT_NAMES[self.kind])

    def _kept_sections(self) -> dict[str, Any]:
        return {"codes": self.weight}

    def _dense_sections(self) -> dict[str, Any]:
        return self._kept_sections()

    def dense(self, target: formats.Format) -> formats.Dense:
        to: Any = target.to if isinstance(target, formats.Dense) else target
        return formats.Dense(FLOAT_NAMES[self.kind], to)

    def decoded(self) -> Array:
        return self.weight.float32()

    def client_bytes(self, target: Optional[formats.Format]) -> int:
        return 0


@dataclass(frozen=True)
class BlockLayer(Layer):
    """A matrix of ggml's blocks."""
    weight: Tensor

    @property
    def kept(self) -> Optional[formats.Format]:
        return formats.Q4_0() if self.kind == "Q4_0" else None

    def _kept_sections(self) -> dict[str, Any]:
        return {"codes": self.weight}

    def decoded(self) -> Array:
        return decode(self.kind, self.weight.data(), (self.n, self.k))


@dataclass(frozen=True)
class Int4Layer(Layer):
    """Four bits in GPTQ's or AWQ's layout."""
    layout: str             # gptq_v1, gptq_v2 or awq
    group_size: int         # elements; 0: all of k
    qweight: Tensor
    qzeros: Tensor
    scales: Tensor
    group_index: Optional[Tensor]  # None: column i is in group i // group_size

    @property
    def kept(self) -> Optional[formats.Format]:
        return formats.Int4(
            self.group_size, FLOAT_NAMES[self.scales.type], layout=self.layout,
            group_index=self.group_index is not None)

    def _kept_sections(self) -> dict[str, Any]:
        sections = {"scales": self.scales, "zeros": self.qzeros,
                    "codes": self.qweight}
        if self.group_index is not None:
            sections["group_index"] = self.group_index
        return sections

    def decoded(self) -> Array:
        if self.layout == "awq":
            codes = _nibbles(self.qweight.array())[:, :, np.argsort(AWQ_ORDER)]
            codes = codes.reshape(self.k, self.n)
            zeros = _nibbles(self.qzeros.array())[:, :, np.argsort(AWQ_ORDER)]
        else:
            codes = _nibbles(self.qweight.array()).transpose(0, 2, 1)
            codes = codes.reshape(self.k, self.n)
            zeros = _nibbles(self.qzeros.array())
        zeros = zeros.reshape(-1, self.n).astype(np.int32)
        if self.layout == "gptq_v1":
            zeros += 1
        if self.group_index is not None:
            group = self.group_index.array()
        else:
            group = np.arange(self.k) // (self.group_size or self.k)
        scales = self.scales.float32()
        return np.ascontiguousarray(
            ((codes - zeros[group]) * scales[group]).T, np.float32)


def _nibbles(words: Array) -> Array:
    """[rows, columns, 8]: the nibbles of each word, the lowest first."""
    shifts = np.arange(0, 32, 4, dtype=np.uint32)
    return ((words.view(np.uint32)[:, :, None] >> shifts) & 15).astype(np.int32)


def make_layer(weight: Tensor, bias: Optional[Tensor]
               ) -> Union[FloatLayer, BlockLayer]:
    """The layer of a matrix, rows first, and its bias if it has one.

    Raises CheckpointError if its type is not read."""
    n, k = weight.shape
    names = (weight.name,) if bias is None else (weight.name, bias.name)
    if weight.type in FLOAT_TYPES:
        return FloatLayer(names, n, k, weight.type, bias, weight)
    if weight.type in DECODED_TYPES:
        return BlockLayer(names, n, k, weight.type, bias, weight)
    raise CheckpointError(
        f"{weight}: type {weight.type} is not read; "
        f"{', '.join(FLOAT_TYPES + DECODED_TYPES)} are")
