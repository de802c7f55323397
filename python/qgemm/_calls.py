# SPDX-License-Identifier: Apache-2.0
"""Requests and answers of the calls that compute, without a connection: blocking and
asyncio clients send the same bytes and read the same arrays."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any, Callable, Generic, Optional, Sequence, TypeVar

import numpy as np

from qgemm import _wire, arrays
from qgemm.programs import LoadedProgram
from qgemm.v1 import qgemm_pb2 as pb

T = TypeVar("T")
MODES = arrays.Choices({name: pb.ComputeMode.Value(f"COMPUTE_MODE_{name}")
                        for name in ("A16", "A8", "A32")})
PRIORITIES = arrays.Choices({name: pb.Priority.Value(f"PRIORITY_{name.upper()}")
                             for name in ("low", "normal", "high")})


@dataclasses.dataclass
class Call(Generic[T]):
    """A call with one message each way."""

    method: str
    request: bytes
    parse: Callable[[bytes], T]
    rows: int = 1  # that it counts for, where servers share calls


@dataclasses.dataclass(frozen=True)
class LaneWork:
    """What a lane sends of a Gemm or a Run beside rows and operands."""

    target: tuple[str, str, str]  # method, name, client id
    a_unit: int  # bytes of what rows are counted in: an element's, or 1
    c_unit: int
    # Of A and C, the mode, the rounding and the priority.
    numbers: tuple[int, int, int, int, int]


class Compute:
    """A Gemm or a Run: its message without the operand, the operand's parts, which
    are the caller's memory, and what becomes of the answer."""

    method = ""
    lane_work: Optional[LaneWork] = None  # None: a lane cannot carry it

    def __init__(self, head: bytes, rows: int, parts: list[memoryview],
                 timings: Optional[pb.Timings]) -> None:
        self.head = head
        self.rows = rows
        self.parts = parts
        self._timings = timings
        self._results: list[arrays.Result] = []

    def call(self) -> Call[Any]:
        return Call(self.method, _wire.with_operand(self.head, self.parts),
                    self.parse, self.rows)

    def parse(self, message: bytes) -> Any:
        """The result of an answer in one message."""
        rest, operand = _wire.split_operand(message)
        if self._timings is not None:  # field 1 of both answers
            self.note(pb.GemmResponse.FromString(rest).timings)
        return self.whole(operand)

    def whole(self, data: memoryview) -> Any:
        """The result of an answer's bytes."""
        self.begin(len(data))
        self.write(0, data)
        return self.result()

    @property
    def wants_times(self) -> bool:
        return self._timings is not None

    def note_times(self, queue: int, to_device: int, kernel: int, to_host: int,
                   total: int, rows: int, requests: int) -> None:
        """The times of an answer that came by a lane."""
        self.note(pb.Timings(
            queue_ns=queue, host_to_device_ns=to_device, kernel_ns=kernel,
            device_to_host_ns=to_host, total_ns=total, launch_rows=rows,
            launch_requests=requests))

    def note(self, timings: pb.Timings) -> None:
        if self._timings is not None:
            self._timings.CopyFrom(timings)

    def begin(self, size: int) -> None:
        """Makes room for an answer of so many bytes. Then comes `write`, as often as
        there are parts, then `result`."""
        self._results = self._make(size)
        if sum(result.memory.nbytes for result in self._results) != size:
            raise ValueError(f"the answer has {size} bytes, which is not the shape "
                             "of the request; load the program anew")

    def write(self, offset: int, data: memoryview) -> None:
        """Copies bytes to where they belong."""
        for result in self._results:
            memory = result.memory
            count = min(len(data), len(memory) - offset)
            if count > 0:
                memory[offset:offset + count] = data[:count]
                data, offset = data[count:], offset + count
            offset -= len(memory)

    def result(self) -> Any:
        """The array, or the tuple of several."""
        made = tuple(result.array() for result in self._results)
        return made[0] if len(made) == 1 else made

    def _make(self, size: int) -> list[arrays.Result]:
        raise NotImplementedError


@functools.lru_cache(maxsize=4096)
def _gemm_head(weights: str, rows: int, a_type: str, c_type: str, mode: str,
               rounding: Optional[str], priority: str,
               client_id: str) -> tuple[bytes, LaneWork]:
    """A GemmRequest without its operand, and the same for a lane: of many calls."""
    head = pb.GemmRequest(
        weights=weights, m=rows, mode=MODES[mode], client_id=client_id,
        a_type=arrays.FLOAT_TYPE[a_type], c_type=arrays.FLOAT_TYPE[c_type],
        priority=PRIORITIES[priority])
    if rounding is not None:
        head.rounding = arrays.FLOAT_TYPE[rounding]
    work = LaneWork(
        ("Gemm", weights, client_id), arrays.STORAGE[a_type].itemsize,
        arrays.STORAGE[c_type].itemsize,
        (head.a_type, head.c_type, head.mode, head.rounding, head.priority))
    return bytes(head.SerializeToString()), work


class Gemm(Compute):
    """`Client.gemm` says what the arguments mean."""

    method = "Gemm"

    def __init__(self, weights: str, x: Any, *, out: Any = None,
                 dtype: Optional[str] = None, mode: str = "A16",
                 rounding: Optional[str] = None, priority: str = "normal",
                 client_id: str = "", timings: Optional[pb.Timings] = None) -> None:
        operand = x if isinstance(x, arrays.Operand) else arrays.as_operand(x)
        if not operand.elements.ndim:
            raise ValueError("x has no dimension; expected [..., k]")
        self._leading = operand.elements.shape[:-1]
        self._is_torch = operand.is_torch
        self._out = out
        if dtype is None:
            dtype = operand.type if out is None else arrays.lent(out)[1]
        self._type = dtype
        rows = math.prod(self._leading)
        head, self.lane_work = _gemm_head(weights, rows, operand.type, dtype, mode,
                                          rounding, priority, client_id)
        super().__init__(head, rows, [operand.view], timings)

    def whole(self, data: memoryview) -> Any:
        if self._out is not None or self._is_torch or self._type == "bf16":
            return super().whole(data)
        c = np.frombuffer(data, arrays.STORAGE[self._type])
        return c.reshape(*self._leading, -1).copy()

    def _make(self, size: int) -> list[arrays.Result]:
        n = size // (max(self.rows, 1) * arrays.STORAGE[self._type].itemsize)
        return [arrays.Result((*self._leading, n), self._type, self._is_torch,
                              self._out)]


class Run(Compute):
    """`Client.run` says what the arguments mean."""

    method = "Run"

    def __init__(self, program: LoadedProgram, inputs: Sequence[Any], *,
                 outs: Optional[Sequence[Any]] = None, time_ops: bool = False,
                 priority: str = "normal", client_id: str = "",
                 timings: Optional[pb.Timings] = None) -> None:
        if len(inputs) != len(program.inputs):
            raise ValueError(f"{len(inputs)} inputs; program {program.name} has "
                             f"{len(program.inputs)}")
        operands = [arrays.as_operand(x).as_type(value.type)
                    for x, value in zip(inputs, program.inputs)]
        self._leading = operands[0].shape[:-1]
        for operand, value in zip(operands, program.inputs):
            if operand.shape != (*self._leading, value.width):
                raise ValueError(
                    f"input {value.name or value} is {list(operand.shape)}; "
                    f"expected {[*self._leading, value.width]}")
        self._outputs = program.outputs
        self._outs = outs if outs is not None else [None] * len(program.outputs)
        if len(self._outs) != len(program.outputs):
            raise ValueError(f"outs has {len(self._outs)} arrays; program "
                             f"{program.name} has {len(program.outputs)} outputs")
        self._is_torch = any(operand.is_torch for operand in operands)
        rows = math.prod(self._leading)
        head = pb.RunRequest(program=program.id, m=rows, time_ops=time_ops,
                             priority=PRIORITIES[priority], client_id=client_id)
        super().__init__(head.SerializeToString(), rows,
                         [operand.view for operand in operands], timings)
        if not time_ops:
            self.lane_work = LaneWork((self.method, program.id, client_id), 1, 1,
                                      (0, 0, 0, 0, head.priority))

    def _make(self, size: int) -> list[arrays.Result]:
        return [arrays.Result((*self._leading, value.width), value.type,
                              self._is_torch, out)
                for value, out in zip(self._outputs, self._outs)]
