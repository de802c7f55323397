# SPDX-License-Identifier: Apache-2.0
"""What becomes of each tensor of a checkpoint: a layer of some name and format,
skipped for a reason, or an error. Decisions only; load.py carries them out.
"""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass, field
from typing import Mapping, Optional, Sequence, Union

from qgemm import formats
from qgemm.loading.checkpoint import Checkpoint
from qgemm.loading.int4 import Int4Config, make_int4_layer, read_config
from qgemm.loading.layers import FLOAT_NAMES, NEAREST, Layer, make_layer
from qgemm.loading.sources import CheckpointError
from qgemm.loading.tensors import FLOAT_TYPES, Tensor

NAME = re.compile(r"[A-Za-z0-9._/-]{1,128}")
# Tables that are looked up, not multiplied with, by their names' last part.
TABLE = re.compile(r"(\w+_)?(embed(ding)?s?|embd)|embed_(tokens|positions)\w*|"
                   r"wte|wpe|shared|token_types")
# The head of a checkpoint that has none of its own is its table of tokens.
TIED_TABLES = ("model.embed_tokens.weight", "embed_tokens.weight",
               "language_model.model.embed_tokens.weight",
               "model.language_model.embed_tokens.weight", "token_embd.weight")
DECODERS = ("ForCausalLM", "ForConditionalGeneration")  # ends of architectures
INTEGER_TYPES = ("I8", "I16", "I32", "I64", "U", "BOOL")
FormatLike = Union[str, formats.Format]


@dataclass(frozen=True)
class Options:
    """What to load, under which names, in which formats.

    format: of float tensors, and of those that the server does not read; None or
    "keep": floats as they are, the others in the nearest format. formats: patterns
    of tensor names (as of a shell) with formats of their own; the last that matches
    counts. include, exclude: patterns; empty includes
    all. rename: pairs (regular expression, replacement), applied to a layer's
    name, in order; then prefix stands before it.
    """
    format: Optional[FormatLike] = None
    formats: Mapping[str, FormatLike] = field(default_factory=dict)
    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    rename: Sequence[tuple[str, str]] = ()
    prefix: str = ""


@dataclass(frozen=True)
class Entry:
    """A layer to load."""
    name: str                         # on the server
    layer: Layer
    target: Optional[formats.Format]  # None: as it is in the file
    action: str                       # in words, for a reader
    resident_bytes: int               # on the server; a backend may pad
    scratch_bytes: int                # of the client while it is made


@dataclass
class Plan:
    entries: list[Entry] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)  # tensor: reason
    errors: dict[str, str] = field(default_factory=dict)   # tensor: what is wrong

    @property
    def resident_bytes(self) -> int:
        return sum(entry.resident_bytes for entry in self.entries)


def make_plan(checkpoint: Checkpoint, options: Options) -> Plan:
    """Accounts for every tensor of the checkpoint, once.

    Raises ValueError for a format that there is not."""
    return _Planner(checkpoint, options).run()


class _Planner:
    def __init__(self, checkpoint: Checkpoint, options: Options):
        self.tensors = checkpoint.tensors
        self.checkpoint = checkpoint
        self.options = options
        self.default = _parse(options.format)
        self.formats = {pattern: _parse(value)
                        for pattern, value in options.formats.items()}
        self.plan = Plan()
        self.used: set[str] = set()   # tensors of layers
        self.names: dict[str, str] = {}  # of layers, with the tensor of each
        self.int4: Optional[Int4Config] = None
        self.int4_error = ""

    def run(self) -> Plan:
        self._read_quantization()
        for name, tensor in self.tensors.items():
            if name.endswith((".weight", ".qweight")):
                self._place_weight(name, tensor)
        self._place_tied_head()
        for name, tensor in self.tensors.items():
            if not (name in self.used or name in self.plan.skipped or
                    name in self.plan.errors):
                self._place_rest(name, tensor)
        return self.plan

    def _read_quantization(self) -> None:
        if self.checkpoint.quantization is None:
            self.int4_error = "there is no quantization_config"
            return
        try:
            self.int4 = read_config(self.checkpoint.quantization)
        except CheckpointError as error:
            self.int4_error = str(error)

    def _excluded(self, name: str) -> str:
        """The reason to leave the tensor out; empty if it is to be loaded."""
        def matches(patterns: Sequence[str]) -> bool:
            return any(fnmatch.fnmatchcase(name, p) for p in patterns)

        if self.options.include and not matches(self.options.include):
            return "not included"
        return "excluded" if matches(self.options.exclude) else ""

    def _place_weight(self, name: str, tensor: Tensor) -> None:
        base, _, part = name.rpartition(".")
        reason = self._excluded(name) or (
            _no_layer(tensor) if part == "weight" else "")
        if reason:
            self.plan.skipped[name] = reason
            return
        try:
            if part == "weight":
                layer: Layer = make_layer(tensor, self._bias(base, tensor))
            elif self.int4 is None:
                raise CheckpointError(self.int4_error)
            else:
                layer = make_int4_layer(base, self.tensors, self.int4)
            self._add(base, name, layer)
        except ValueError as error:
            self.plan.errors[name] = str(error)

    def _bias(self, base: str, weight: Tensor) -> Optional[Tensor]:
        bias = self.tensors.get(f"{base}.bias")
        if bias is not None and (bias.type not in FLOAT_TYPES or
                                 bias.shape != weight.shape[:1]):
            raise CheckpointError(
                f"{bias}: {bias.type} {list(bias.shape)} is no bias of {weight}")
        return bias

    def _place_tied_head(self) -> None:
        """Adds the head that shares its weights with the table of tokens."""
        head = "output" if self.checkpoint.is_gguf else "lm_head"
        table = next((self.tensors[t] for t in TIED_TABLES
                      if t in self.tensors), None)
        if table is None or len(table.shape) != 2 or not self._is_tied(head):
            return
        if self._excluded(f"{head}.weight"):
            return
        try:
            self._add(head, f"{head}.weight", make_layer(table, None))
        except ValueError as error:
            self.plan.errors[table.name] = str(error)
            return
        self.plan.skipped.pop(table.name, None)

    def _is_tied(self, head: str) -> bool:
        if f"{head}.weight" in self.tensors or f"{head}.qweight" in self.tensors:
            return False
        if self.checkpoint.is_gguf:
            return True
        config = self.checkpoint.config
        architectures = config.get("architectures")
        decodes = isinstance(architectures, list) and any(
            isinstance(a, str) and a.endswith(DECODERS)
            for a in architectures)
        return decodes and bool(config.get("tie_word_embeddings", True))

    def _place_rest(self, name: str, tensor: Tensor) -> None:
        base = name.rpartition(".")[0]
        weights = (f"{base}.qweight", f"{base}.weight")
        of = next((w for w in weights if w in self.tensors), None)
        if self._excluded(name):
            reason = self._excluded(name)
        elif of in self.plan.skipped:
            reason = self.plan.skipped[of]
        elif of in self.plan.errors:
            reason = "its layer has an error"
        else:
            reason = _no_layer(tensor) or "no weight of a layer by its name"
        self.plan.skipped[name] = reason

    def _add(self, base: str, tensor: str, layer: Layer) -> None:
        """Adds an entry. Raises ValueError if its name or format is illegal."""
        name = base
        for pattern, replacement in self.options.rename:
            name = re.sub(pattern, replacement, name)
        name = self.options.prefix + name
        if NAME.fullmatch(name) is None:
            raise ValueError(f"{name!r} is no name on a server "
                             "([A-Za-z0-9._/-], 1 to 128)")
        if name in self.names:
            raise ValueError(f"{name!r} is the name of {self.names[name]} too")
        target = self._target(tensor, layer)
        spec = layer.spec(target)
        self.names[name] = tensor
        self.used.update(layer.tensors)
        self.plan.entries.append(Entry(
            name, layer, target, _action(layer, target),
            resident_bytes(spec), layer.client_bytes(target)))

    def _target(self, tensor: str, layer: Layer) -> Optional[formats.Format]:
        """The format to have the server make of the layer; None: keep it."""
        matching = [format for pattern, format in self.formats.items()
                    if fnmatch.fnmatchcase(tensor, pattern)]
        kept = layer.kept
        if matching:
            target = matching[-1]
        elif kept is None or isinstance(kept, formats.Dense):
            target = self.default
        else:
            target = None  # packed codes, whatever is asked of the floats
        if target is None and kept is None:
            return formats.parse(NEAREST[layer.kind])
        return None if target == kept else target


def _parse(format: Optional[FormatLike]) -> Optional[formats.Format]:
    """None, which keeps a layer, for None and "keep"."""
    return None if format in (None, "keep") else formats.parse(format)


def _no_layer(tensor: Tensor) -> str:
    """The reason why a tensor is no layer's weight; empty if it is one by its name,
    readable or not."""
    *_, owner, part = ("", *tensor.name.split("."))
    if part != "weight" and tensor.type.startswith(INTEGER_TYPES):
        return f"{tensor.type}: integers, no weights"
    if len(tensor.shape) < 2:
        return "one row: a constant of a program, the client's"
    if len(tensor.shape) > 2:
        return f"{len(tensor.shape)} dimensions, no matrix"
    if 0 in tensor.shape:
        return "it is empty"
    if TABLE.fullmatch(owner):
        return "a table that is looked up, not multiplied with: the client's"
    return ""


def _action(layer: Layer, target: Optional[formats.Format]) -> str:
    """What happens to the layer, in words."""
    label = target_label(layer, target)
    if not isinstance(layer.kept, formats.Dense):
        return (f"{layer.kind}, kept" if target is None else
                f"{layer.kind}, decoded -> {label}")
    kept = FLOAT_NAMES[layer.kind] == label
    return f"{layer.kind}, kept" if kept else f"{layer.kind} -> {label}"


def target_label(layer: Layer, target: Optional[formats.Format]) -> str:
    """kbit4, int4, fp16, ...: the short name of what becomes resident."""
    format = layer.kept if target is None else layer.dense(target)
    if isinstance(format, formats.Dense):
        if format.to is None or isinstance(format.to, str):
            return format.resident_type
        format = format.to
    assert format is not None
    bits = format.bits if isinstance(format, formats.Kbit) else ""
    return f"{formats.name_of(format)}{bits}"


def resident_bytes(spec: formats.WeightSpec) -> int:
    """Bytes of the resident form (docs/formats.md), which a backend may pad."""
    n, k, format = spec.n, spec.k, spec.format
    bias = 4 * n if spec.bias else 0
    if isinstance(format, formats.Dense):
        if format.to is None or isinstance(format.to, str):
            return 2 * n * k + bias
        format = format.to
    if isinstance(format, formats.Kbit):
        return n * (k // 32) * (4 * format.bits + 1) + (4 << format.bits) + bias
    if isinstance(format, formats.Q4_0):
        return n * (k // 32) * 18 + bias
    if isinstance(format, formats.Ternary):
        return n * -(-k // 4) + 4 * n + bias
    groups = -(-k // (format.group_size or k))
    zeros = 0 if format.layout == "plain" and not format.zeros else groups
    scale = formats.ELEMENT_BYTES[format.scale_type]
    return n * (-(-k // 2) + groups * scale + zeros) + bias
