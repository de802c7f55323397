# SPDX-License-Identifier: Apache-2.0
"""Programs: row-wise operations over resident weights that one call runs
(docs/programs.md has their meaning and limits).

    p = Program("bf16")
    x = p.input(4096, "x", dtype="fp32")
    h = p.rms_norm(x, norm_weight, eps=1e-5)
    gated = p.silu(p.gemm(h, "layer0/gate")) * p.gemm(h, "layer0/up")
    p.output(p.add(x, p.gemm(gated, "layer0/down"), dtype="fp32"))
    ffn = client.load_program("layer0/ffn", p)
    y = client.run(ffn, x)
"""

from __future__ import annotations

import dataclasses
from typing import Any, Optional, Union

from qgemm import arrays
from qgemm.v1 import program_pb2 as pb

Operand = Union["Value", Any]  # a value, or an array, which becomes a constant

_TYPES = arrays.Choices({name: pb.NumberType.Value(f"NUMBER_TYPE_{name.upper()}")
                         for name in ("fp32", "fp16", "bf16", "int32")})
_MODES = arrays.Choices({name: pb.Program.Gemm.Mode.Value(f"MODE_{name}")
                         for name in ("A16", "A8", "A32")})
_KINDS = arrays.Choices({
    name: pb.Program.Act.Kind.Value(f"KIND_{name.upper()}")
    for name in ("silu", "sigmoid", "gelu_erf", "gelu_tanh", "relu", "tanh")})
_TYPE_NAMES = {number: name for name, number in _TYPES.items()}


@dataclasses.dataclass(frozen=True, eq=False)
class Value:
    """An input, a constant or a result of the program that made it; x + y and x * y
    are the program's `add` and `mul`."""

    program: "Program"
    kind: str   # input, constant or result
    index: int  # among those of its kind; a result's place among all

    def __add__(self, other: Operand) -> "Value":
        return self.program.add(self, other)

    def __mul__(self, other: Operand) -> "Value":
        return self.program.mul(self, other)


class Program:
    """Builds a program, op by op. A method of an op returns its result.

    dtype: the type of a result, input or constant: fp32, fp16 or bf16; by default
    the program's. name: for messages alone. Norms' weights and biases, and the second
    operand of add and mul, may be arrays, which become constants of the program's
    type; equal ones are sent once. The server checks the program when it is loaded.
    """

    def __init__(self, dtype: str = "bf16") -> None:
        self._message = pb.Program(revision=1, value_type=_TYPES[dtype])
        self._dtype = dtype
        self._results = 0
        self._outputs: list[Value] = []
        # (message, field, value) to be numbered when all are known.
        self._uses: list[tuple[Any, str, Value]] = []
        self._constants: dict[tuple[str, bytes], Value] = {}

    def input(self, width: int, name: str = "", *,
              dtype: Optional[str] = None) -> Value:
        """A value [m, width] that comes with each call."""
        self._message.inputs.add(name=name, width=width, type=self._type(dtype))
        return Value(self, "input", len(self._message.inputs) - 1)

    def constant(self, values: Any, name: str = "", *,
                 dtype: Optional[str] = None) -> Value:
        """One row [width] that stands for every row of a call."""
        kind = dtype or self._dtype
        data = bytes(arrays.as_operand(values).as_type(kind).view)
        if (kind, data) not in self._constants:
            self._constants[kind, data] = Value(
                self, "constant", len(self._message.constants))
            self._message.constants.add(name=name, values=data,
                                        type=self._type(dtype))
        return self._constants[kind, data]

    def output(self, *values: Value) -> None:
        """Adds results to the answer, in this order."""
        self._outputs += values

    def gemm(self, x: Value, weights: str, *, mode: str = "A16",
             rounding: Optional[str] = None, dtype: Optional[str] = None,
             name: str = "") -> Value:
        """x * W^T + bias of resident weights, by name or id. rounding: fp16 or bf16,
        the type that an fp32 x is rounded to in mode A16."""
        op = self._op(dtype, name)
        op.gemm.weights = weights
        op.gemm.mode = _MODES[mode]
        if rounding:
            op.gemm.rounding = _TYPES[rounding]
        return self._result(op.gemm, x=x)

    def add(self, x: Value, y: Operand, *, dtype: Optional[str] = None,
            name: str = "") -> Value:
        return self._result(self._op(dtype, name).add, x=x, y=y)

    def mul(self, x: Value, y: Operand, *, dtype: Optional[str] = None,
            name: str = "") -> Value:
        return self._result(self._op(dtype, name).mul, x=x, y=y)

    def act(self, x: Value, kind: str, *, dtype: Optional[str] = None,
            name: str = "") -> Value:
        """kind: silu, sigmoid, gelu_erf, gelu_tanh, relu or tanh."""
        op = self._op(dtype, name)
        op.act.kind = _KINDS[kind]
        return self._result(op.act, x=x)

    def silu(self, x: Value, **options: Any) -> Value:
        return self.act(x, "silu", **options)

    def clamp(self, x: Value, low: float, high: float, *,
              dtype: Optional[str] = None, name: str = "") -> Value:
        op = self._op(dtype, name)
        op.clamp.low, op.clamp.high = low, high
        return self._result(op.clamp, x=x)

    def rms_norm(self, x: Value, weight: Optional[Operand] = None, *,
                 eps: float = 1e-6, group: int = 0, dtype: Optional[str] = None,
                 name: str = "") -> Value:
        """group: columns that have a mean of their own; 0: all."""
        op = self._op(dtype, name)
        op.rms_norm.eps, op.rms_norm.group = eps, group
        return self._result(op.rms_norm, x=x, weight=weight)

    def layer_norm(self, x: Value, weight: Optional[Operand] = None,
                   bias: Optional[Operand] = None, *, eps: float = 1e-5,
                   dtype: Optional[str] = None, name: str = "") -> Value:
        op = self._op(dtype, name)
        op.layer_norm.eps = eps
        return self._result(op.layer_norm, x=x, weight=weight, bias=bias)

    def slice(self, x: Value, begin: int, width: int, *,
              dtype: Optional[str] = None, name: str = "") -> Value:
        op = self._op(dtype, name)
        op.slice.begin, op.slice.width = begin, width
        return self._result(op.slice, x=x)

    def convert(self, x: Value, dtype: str, *, name: str = "") -> Value:
        return self._result(self._op(dtype, name).convert, x=x)

    def top_k(self, x: Value, k: int, *, name: str = "") -> tuple[Value, Value]:
        """The k largest of each row: values, fp32, and ids, int32."""
        op = self._op(None, name)
        op.top_k.k = k
        values = self._result(op.top_k, x=x)
        self._results += 1
        return values, Value(self, "result", values.index + 1)

    def message(self) -> pb.Program:
        """The program as the server takes it: inputs, constants and results are
        numbered in this order."""
        begin = {"input": 0, "constant": len(self._message.inputs)}
        begin["result"] = begin["constant"] + len(self._message.constants)
        for holder, field, value in self._uses:
            setattr(holder, field, begin[value.kind] + value.index)
        del self._message.outputs[:]
        self._message.outputs.extend(
            begin[value.kind] + value.index for value in self._outputs)
        return self._message

    def _type(self, dtype: Optional[str]) -> Any:
        return _TYPES[dtype] if dtype else pb.NUMBER_TYPE_UNSPECIFIED

    def _op(self, dtype: Optional[str], name: str) -> Any:
        return self._message.ops.add(name=name, type=self._type(dtype))

    def _result(self, kind: Any, **operands: Optional[Operand]) -> Value:
        """The next result; `kind` is the op's own message, of which the operands are
        fields. None leaves one out."""
        kind.SetInParent()
        for field, operand in operands.items():
            if operand is None:
                continue
            value = operand if isinstance(operand, Value) else self.constant(operand)
            if value.program is not self:
                raise ValueError(f"{field} is a value of another program")
            self._uses.append((kind, field, value))
        self._results += 1
        return Value(self, "result", self._results - 1)


@dataclasses.dataclass(frozen=True)
class Port:
    """An input or an output: [m, width] of a type."""

    name: str
    type: str  # fp32, fp16, bf16; int32 of ids
    width: int


@dataclasses.dataclass(frozen=True)
class LoadedProgram:
    """A program that a server holds. It is run by its id, whatever its name is bound
    to meanwhile."""

    name: str
    id: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    weights: tuple[str, ...]  # ids, each once
    ops: int


def described(name: str, info: Any) -> LoadedProgram:
    """Of a ProgramInfo."""
    def ports(values: Any) -> tuple[Port, ...]:
        return tuple(Port(v.name, _TYPE_NAMES[v.type], v.width) for v in values)
    return LoadedProgram(name, info.id, ports(info.inputs), ports(info.outputs),
                         tuple(info.weights), info.ops)
