# SPDX-License-Identifier: Apache-2.0
"""Weight formats: what an upload's bytes mean (docs/formats.md).

A format is both what `Client.load` is asked for and what a `WeightSpec` says of
bytes that are packed already. Formats and specs are immutable.
"""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any, Iterator, Mapping, Optional, Protocol, Sequence, Union

import numpy as np

from qgemm.v1 import qgemm_pb2 as pb

Fields = list[tuple[str, Any]]
Sizes = dict[str, int]

FP32_MAX = float(np.finfo(np.float32).max)
BLOCK = 32  # elements of a kbit or Q4_0 block
ELEMENT_BYTES = {"fp32": 4, "fp16": 2, "bf16": 2, "e4m4": 1}
# Names of sections, in the order in which they travel.
SECTIONS = {
    "codebook": pb.SECTION_CODEBOOK,
    "group_index": pb.SECTION_GROUP_INDEX,
    "bias": pb.SECTION_BIAS,
    "scales": pb.SECTION_SCALES,
    "zeros": pb.SECTION_ZEROS,
    "codes": pb.SECTION_CODES,
}

NF4 = (-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453,
       -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0,
       0.07958029955625534, 0.16093020141124725, 0.24611230194568634,
       0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
       0.7229568362236023, 1.0)


PIECE_BYTES = 512 << 10  # of a section, at a time


class Section(Protocol):
    """Bytes of an upload that are made piece by piece, as often as they are asked
    for."""

    @property
    def nbytes(self) -> int:
        ...

    def pieces(self, size: int) -> Iterator[memoryview]:
        """All bytes in order, `size` in each piece but the last. A piece is valid
        until the next one."""


@dataclasses.dataclass(frozen=True)
class Bytes:
    """A buffer as a Section."""

    view: memoryview

    @property
    def nbytes(self) -> int:
        return self.view.nbytes

    def pieces(self, size: int) -> Iterator[memoryview]:
        for begin in range(0, len(self.view), size):
            yield self.view[begin:begin + size]


def _section(given: Any) -> Section:
    if hasattr(given, "pieces"):
        section: Section = given
        return section
    view = memoryview(given)
    return Bytes(view.cast("B") if view.nbytes else memoryview(b""))


def _divided(what: str, value: int, divisor: int) -> int:
    if value % divisor:
        raise ValueError(f"{what} = {value} is not a multiple of {divisor}")
    return value // divisor


def _one_of(field: str, value: Any, allowed: Sequence[Any]) -> None:
    if value not in allowed:
        raise ValueError(f"{field} = {value!r}; expected one of "
                         f"{', '.join(map(repr, allowed))}")


def _finite_fp32(field: str, values: Sequence[float]) -> None:
    for i, value in enumerate(values):
        if not abs(value) <= FP32_MAX:
            raise ValueError(f"{field}[{i}] = {value}; expected a finite fp32 value")


def _number(kind: Any, prefix: str, name: str) -> Any:
    """The number of an enum's value."""
    return kind.Value(f"{prefix}_{name.upper()}")


def _scale(name: str) -> Any:
    return _number(pb.ScaleType, "SCALE_TYPE", name)


def _float(name: str) -> Any:
    return _number(pb.FloatType, "FLOAT_TYPE", name)


@dataclasses.dataclass(frozen=True)
class Kbit:
    """Codes of 2 to 5 bits into a codebook, an absmax for each 32 along k."""

    bits: int = 4
    codebook: Optional[Sequence[float]] = None  # 2^bits values; None: the default
    scale_type: str = "e4m4"  # of the upload: e4m4, fp16 or fp32
    layout: str = "flat"      # or "tiled": n is a multiple of 128

    def __post_init__(self) -> None:
        _one_of("bits", self.bits, (2, 3, 4, 5))
        _one_of("scale_type", self.scale_type, ("e4m4", "fp16", "fp32"))
        _one_of("layout", self.layout, ("flat", "tiled"))
        if self.codebook is not None:
            values = tuple(float(v) for v in self.codebook)
            if len(values) != 2**self.bits:
                raise ValueError(f"codebook has {len(values)} values; "
                                 f"{self.bits} bits need {2**self.bits}")
            _finite_fp32("codebook", values)
            object.__setattr__(self, "codebook", values)

    def text(self) -> Fields:
        return [("bits", self.bits), ("layout", self.layout),
                ("scale_type", self.scale_type), *self.codebook_text()]

    def codebook_text(self) -> Fields:
        return [("codebook", int(self.codebook is not None))]

    def sizes(self, n: int, k: int) -> Sizes:
        blocks = _divided("k", k, BLOCK)
        if self.layout == "tiled":
            _divided("n", n, 128)
            blocks += blocks % 2
        return {**self.codebook_sizes(),
                "scales": n * blocks * ELEMENT_BYTES[self.scale_type],
                "codes": n * blocks * self.bits * 4}

    def codebook_sizes(self) -> Sizes:
        return {} if self.codebook is None else {"codebook": 4 << self.bits}

    def message(self) -> pb.KbitFormat:
        return pb.KbitFormat(
            bits=self.bits, has_codebook=self.codebook is not None,
            layout=_number(pb.KbitFormat.Layout, "LAYOUT", self.layout),
            absmax_type=_scale(self.scale_type))


@dataclasses.dataclass(frozen=True)
class Q4_0:
    """ggml's blocks of 18 bytes, as they lie in a GGUF file."""

    def text(self) -> Fields:
        return []

    def sizes(self, n: int, k: int) -> Sizes:
        return {"codes": n * _divided("k", k, BLOCK) * 18}

    def message(self) -> pb.Q40Format:
        return pb.Q40Format()


@dataclasses.dataclass(frozen=True)
class Ternary:
    """Weights -1, 0 and 1 times an fp32 scale a row, or one for all rows."""

    coding: str = "int8"  # or packed_012, packed_123: four codes a byte
    tensor_wide_scale: bool = False

    def __post_init__(self) -> None:
        _one_of("coding", self.coding, ("int8", "packed_012", "packed_123"))

    def text(self) -> Fields:
        return [("coding", self.coding),
                ("tensor_wide_scale", int(self.tensor_wide_scale))]

    def sizes(self, n: int, k: int) -> Sizes:
        row = k if self.coding == "int8" else -(-k // 4)
        return {"scales": 4 * (1 if self.tensor_wide_scale else n),
                "codes": n * row}

    def message(self) -> pb.TernaryFormat:
        return pb.TernaryFormat(
            coding=_number(pb.TernaryFormat.Coding, "CODING", self.coding),
            tensor_wide_scale=self.tensor_wide_scale)


@dataclasses.dataclass(frozen=True)
class Int4:
    """Linear 4 bits with a scale for each group along k."""

    group_size: int = 128      # 32, 64, 128; 0: all of k
    scale_type: str = "fp16"   # fp16, bf16 or fp32
    zeros: bool = False        # plain: has zeros, that is, quantizes asymmetrically
    layout: str = "plain"      # or gptq_v1, gptq_v2, awq
    group_index: bool = False  # GPTQ: act-order

    def __post_init__(self) -> None:
        _one_of("group_size", self.group_size, (0, 32, 64, 128))
        _one_of("scale_type", self.scale_type, ("fp16", "bf16", "fp32"))
        _one_of("layout", self.layout, ("plain", "gptq_v1", "gptq_v2", "awq"))
        if self.zeros and self.layout != "plain":
            raise ValueError(f"zeros = True; layout {self.layout} has them anyway")
        if self.group_index and not self.layout.startswith("gptq"):
            raise ValueError(f"group_index = True; layout {self.layout} has none")

    def text(self) -> Fields:
        fields: Fields = [("layout", self.layout), *self.quantizer_text()[:2]]
        if self.layout == "plain":
            fields.append(("zeros", int(self.zeros)))
        elif self.layout != "awq":
            fields.append(("group_index", int(self.group_index)))
        return fields

    def quantizer_text(self) -> Fields:
        return [("scale_type", self.scale_type), ("group_size", self.group_size),
                ("zeros", int(self.zeros))]

    def sizes(self, n: int, k: int) -> Sizes:
        scale_bytes = ELEMENT_BYTES[self.scale_type]
        if self.layout == "plain":
            groups = -(-k // (self.group_size or k))
            zeros = {"zeros": n * groups} if self.zeros else {}
            return {"scales": n * groups * scale_bytes, **zeros,
                    "codes": n * -(-k // 2)}
        groups = _divided("k", k, self.group_size or k)
        index = {"group_index": 4 * k} if self.group_index else {}
        return {**index, "scales": n * groups * scale_bytes,
                "zeros": groups * _divided("n", n, 8) * 4,
                "codes": _divided("k", k, 8) * n * 4}

    def message(self) -> pb.Int4Format:
        return pb.Int4Format(
            layout=_number(pb.Int4Format.Layout, "LAYOUT", self.layout),
            group_size=self.group_size, scale_type=_scale(self.scale_type),
            has_zeros=self.zeros, has_group_index=self.group_index)


Quantized = Union[Kbit, Q4_0, Ternary, Int4]


@dataclasses.dataclass(frozen=True)
class Dense:
    """A matrix of floats, kept or quantized by the server while it arrives."""

    type: Optional[str] = None  # of the upload: fp32, fp16, bf16; None: as it is
    # What the server makes of it: a format, "fp16" or "bf16"; None: its own type,
    # and bf16 of fp32.
    to: Union[Quantized, str, None] = None

    def __post_init__(self) -> None:
        _one_of("type", self.type, (None, "fp32", "fp16", "bf16"))
        if self.to is None or isinstance(self.to, str):
            _one_of("to", self.to, (None, "fp16", "bf16"))

    @property
    def resident_type(self) -> str:
        if isinstance(self.to, str):
            return self.to
        return "fp16" if self.type == "fp16" else "bf16"

    def text(self) -> Fields:
        fields: Fields = [("type", self.type)]
        if self.to is None or isinstance(self.to, str):
            return fields + [("quantize_to", "none"),
                             ("resident_type", self.resident_type)]
        fields.append(("quantize_to", name_of(self.to)))
        if isinstance(self.to, Kbit):
            fields += [("bits", self.to.bits), *self.to.codebook_text()]
        elif isinstance(self.to, Int4):
            fields += self.to.quantizer_text()
        return fields

    def sizes(self, n: int, k: int) -> Sizes:
        if self.type is None:
            raise ValueError("Dense.type is None; an upload has a type")
        book = self.to.codebook_sizes() if isinstance(self.to, Kbit) else {}
        return {**book, "codes": n * k * ELEMENT_BYTES[self.type]}

    def message(self) -> pb.DenseFormat:
        message = pb.DenseFormat(type=_float(self.type or "unspecified"))
        if isinstance(self.to, Kbit):
            message.quantize_kbit.bits = self.to.bits
            message.quantize_kbit.has_codebook = self.to.codebook is not None
        elif isinstance(self.to, Q4_0):
            message.quantize_q4_0.SetInParent()
        elif isinstance(self.to, Ternary):
            message.quantize_ternary.SetInParent()
        elif isinstance(self.to, Int4):
            message.quantize_int4.CopyFrom(self.to.message())
        else:
            message.resident_type = _float(self.resident_type)
        return message


Format = Union[Quantized, Dense]
_NAMES: dict[type, str] = {
    Kbit: "kbit", Q4_0: "q4_0", Ternary: "ternary", Int4: "int4", Dense: "dense"}
BY_NAME: dict[str, Format] = {
    **{f"kbit{bits}": Kbit(bits) for bits in (2, 3, 4, 5)},
    "nf4": Kbit(4, NF4), "q4_0": Q4_0(), "ternary": Ternary(), "int4": Int4(),
    "fp16": Dense(to="fp16"), "bf16": Dense(to="bf16"), "dense": Dense()}


def name_of(format: Format) -> str:
    """kbit, q4_0, ternary, int4 or dense."""
    return _NAMES[type(format)]


def parse(format: Union[str, Format]) -> Format:
    """The format of a name of BY_NAME; a format is itself."""
    if isinstance(format, str):
        _one_of("format", format, list(BY_NAME))
        return BY_NAME[format]
    return format


@dataclasses.dataclass(frozen=True)
class WeightSpec:
    """The meaning of an upload's sections: all that its id is hashed from but
    the bytes. n is output features, k input features."""

    n: int
    k: int
    format: Format
    bias: bool = False

    def text(self) -> str:
        """The canonical header text."""
        fields = [("format", name_of(self.format)), ("n", self.n), ("k", self.k),
                  ("bias", int(self.bias)), *self.format.text()]
        return "qgemm-weights-v1\n" + "".join(f"{f}={v}\n" for f, v in fields)

    def sizes(self) -> Sizes:
        """Bytes of each section, in the order in which they travel.

        ValueError: the format does not take n or k."""
        sizes = self.format.sizes(self.n, self.k)
        if self.bias:
            sizes["bias"] = 4 * self.n
        return {name: sizes[name] for name in SECTIONS if name in sizes}

    def checked(self, sections: Mapping[str, Any]) -> dict[str, Section]:
        """The sections, given as buffers or Sections, in order. A codebook that the
        format has, and `sections` not, is added.

        ValueError: one is missing, unknown or not of its size."""
        sizes, given = self.sizes(), dict(sections)
        target = self.format.to if isinstance(self.format, Dense) else self.format
        if isinstance(target, Kbit) and target.codebook is not None:
            given.setdefault("codebook", np.asarray(target.codebook, "<f4"))
        if given.keys() != sizes.keys():
            raise ValueError(f"sections are {', '.join(given) or 'none'}; "
                             f"this spec has {', '.join(sizes)}")
        made = {name: _section(given[name]) for name in sizes}
        for name, section in made.items():
            if section.nbytes != sizes[name]:
                raise ValueError(f"section {name} has {section.nbytes} bytes; "
                                 f"this spec needs {sizes[name]}")
        return made

    def digest(self, sections: Mapping[str, Any]) -> bytes:
        """The weights' id as 32 bytes."""
        hasher = hashlib.sha256(self.text().encode())
        for section in self.checked(sections).values():
            for piece in section.pieces(PIECE_BYTES):
                hasher.update(piece)
        return hasher.digest()

    def id(self, sections: Mapping[str, Any]) -> str:
        """The weights' id, 64 hexadecimal digits."""
        return self.digest(sections).hex()

    def header(self) -> pb.WeightsHeader:
        header = pb.WeightsHeader(n=self.n, k=self.k, has_bias=self.bias,
                                  total_bytes=sum(self.sizes().values()))
        getattr(header, name_of(self.format)).CopyFrom(self.format.message())
        return header
