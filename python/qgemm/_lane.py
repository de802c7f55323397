# SPDX-License-Identifier: Apache-2.0
"""A lane, memory that this process and a server on its host share, by which a
blocking client makes its calls that compute. docs/lane.md has every byte of it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import mmap
import os
import select
import struct
import threading
import time
from typing import Any, Optional, Sequence

from qgemm import errors
from qgemm._calls import Compute
from qgemm._lane_parts import (ALIGNMENT, CLOSE, CLOSE_FIELDS, CLOSED, CLOSED_FIELDS,
                               OPEN, OPEN_FIELDS, OPENED, OPENED_FIELDS, LaneSocket,
                               Lost, Ranges, Refused)

OPERAND_BYTES = 16 << 20  # of a lane
SLOTS = 128
SPIN_SECONDS = 20e-6

_REQUEST = struct.Struct("<IIIIQQQQQBBBBB3x")
_ERROR = struct.Struct("<QQ432s")
_TIMES = struct.Struct("<QQQQQII")
_HEAD_BYTES, _REQUEST_BYTES, _COMPLETION_BYTES = 256, 64, 512
_PUBLISHED, _SERVER_SLEEPS, _CLIENT_SLEEPS, _ENDED = 0, 64, 128, 192
_MAX_NAME = 128
_TURN_SECONDS = 0.05  # a sleeper looks so often whether its lane has ended


class NotCarried(Exception):
    """The call goes by gRPC: the lane has no room for it, or knows another shape."""


@dataclasses.dataclass
class _Target:
    """Weights or a program that the server has opened, and who needs the handle."""

    handle: int
    a_row: int  # elements of weights, bytes of a program
    c_row: int
    users: int = 0
    is_forgotten: bool = False


@dataclasses.dataclass
class _Flight:
    """What a request holds until it is answered."""

    target: _Target
    ranges: list[tuple[int, int]]
    slot: int
    cookie: int


class Lane:
    """One lane, from its opening to its end. Thread-safe."""

    def __init__(self, path: str, token: str, timeout: float) -> None:
        """Raises errors.Error if the server refuses it or does not answer."""
        try:
            self._socket = LaneSocket(path, timeout)
            self._map(*self._socket.greet(OPERAND_BYTES, SLOTS, token.encode()))
        except (OSError, ValueError, Lost) as failed:
            raise errors.make("UNAVAILABLE", f"open the lane {path}: {failed}")
        except Refused as refused:
            raise errors.make_numbered(
                refused.code, f"open the lane {path}: {refused.text}", None)
        self._lock = threading.Lock()  # of all below
        self._targets: dict[tuple[str, str, str], _Target] = {}
        self._free_slots = list(range(self._slots))
        self._cookies = [0] * self._slots
        self._published = 0
        self._abandoned: list[_Flight] = []
        self._calls = 0
        self._has_ended = False
        self._turn = threading.Condition()  # one of those who sleep has the socket
        self._has_leader = False
        self._sleepers: list[_Flight] = []

    def __del__(self) -> None:
        # Not in end(): threads may still wait for them.
        if hasattr(self, "_socket"):
            self._socket.close()
        for descriptor in getattr(self, "_descriptors", ()):
            os.close(descriptor)

    def _map(self, fields: tuple[Any, ...], descriptors: list[int]) -> None:
        (size, self._requests, self._completions, _, self._operands, operand_bytes,
         self._slots, _) = fields
        segment, self._doorbell, self._wake = descriptors
        self._descriptors = [self._doorbell, self._wake]
        try:
            self._memory = mmap.mmap(segment, size)  # ValueError: it is smaller
        finally:
            os.close(segment)
        self._memory.madvise(mmap.MADV_DONTFORK)
        parts = [(0, _HEAD_BYTES), (self._requests, _REQUEST_BYTES * self._slots),
                 (self._completions, _COMPLETION_BYTES * self._slots),
                 (self._operands, operand_bytes)]
        if not self._slots or any(
                begin + extent > size or begin % ALIGNMENT for begin, extent in parts):
            raise ValueError("the server's layout does not fit its segment")
        self._bytes = memoryview(self._memory)
        # Words are loaded and stored whole, in the machine's order.
        self._words = self._bytes.cast("I")
        self._long_words = self._bytes.cast("Q")
        self._ranges = Ranges(operand_bytes)

    def end(self) -> None:
        """Hangs up; calls in progress end with Lost, and so do all that follow."""
        self._has_ended = True
        self._socket.hang_up()
        with self._turn:
            self._turn.notify_all()

    @property
    def has_ended(self) -> bool:
        return self._has_ended or self._words[_ENDED // 4] != 0

    # Calls --------------------------------------------------------------------------

    def call(self, compute: Compute, timeout: Optional[float]) -> Any:
        """The result of one request; timeout: seconds left of the call.

        Raises NotCarried, Lost, and the server's errors."""
        deadline = None if timeout is None else time.monotonic() + timeout
        if self._abandoned:
            self._free_abandoned()
        if self.has_ended:
            raise Lost("the lane has ended")
        work = compute.lane_work()
        if work is None:
            raise NotCarried
        key = (work.method, work.name, work.client_id)
        target = self._open(key)
        a_bytes = sum(map(len, compute.parts))
        c_bytes = target.c_row * work.c_unit * compute.rows
        try:
            if (not 0 < compute.rows < 1 << 32 or
                    a_bytes != target.a_row * work.a_unit * compute.rows):
                self._forget(key, target)
                raise NotCarried
            flight, a_at, c_at = self._place(target, a_bytes, c_bytes)
        finally:
            self._release(target)
        at = self._operands + a_at
        for part in compute.parts:
            self._bytes[at:at + len(part)] = part
            at += len(part)
        left = 0 if deadline is None else max(
            1, int((deadline - time.monotonic()) * 1e9))
        self._publish(flight, compute.rows, a_at, a_bytes, c_at, c_bytes, left,
                      work.numbers)
        if not self._wait(flight, deadline):
            with self._lock:
                self._abandoned.append(flight)
            raise errors.make("DEADLINE_EXCEEDED",
                              "the call's deadline passed before its answer came")
        try:
            return self._answer(compute, flight, self._operands + c_at, c_bytes)
        except errors.Error as error:
            if error.code in ("NOT_FOUND", "INVALID_ARGUMENT"):
                self._forget(key, target)
            if error.code == "INVALID_ARGUMENT":  # of another shape, perhaps
                raise NotCarried from None
            raise
        finally:
            self._free([flight])

    def _open(self, key: tuple[str, str, str]) -> _Target:
        """The target of a key, with one more user."""
        with self._lock:
            target = self._targets.get(key)
            if target is not None:
                target.users += 1
                return target
        method, name, client_id = (part.encode() for part in key)
        if max(len(name), len(client_id)) > _MAX_NAME:
            raise NotCarried
        kind = 1 if method == b"Gemm" else 2
        try:
            _, handle, n, k, in_bytes, out_bytes, *_ = self._socket.ask(
                OPEN, OPEN_FIELDS.pack(kind, len(name), len(client_id), 0) +
                name + client_id, OPENED, OPENED_FIELDS)
        except Refused as refused:
            if refused.code == 8:  # RESOURCE_EXHAUSTED: too many are open
                self._forget_all()
            raise NotCarried from None  # a call says why
        made = _Target(handle, k, n) if kind == 1 else _Target(
            handle, in_bytes, out_bytes)
        made.users = 1
        with self._lock:
            if key in self._targets:
                made.is_forgotten = True  # another thread was faster
            else:
                self._targets[key] = made
        return made

    def _forget(self, key: tuple[str, str, str], target: _Target) -> None:
        with self._lock:
            if self._targets.get(key) is target:
                del self._targets[key]
                target.is_forgotten = True
                target.users += 1
            else:
                return
        self._release(target)

    def _forget_all(self) -> None:
        with self._lock:
            targets = list(self._targets.items())
        for key, target in targets:
            self._forget(key, target)

    def _release(self, target: _Target) -> None:
        with self._lock:
            target.users -= 1
            if target.users or not target.is_forgotten:
                return
        with contextlib.suppress(Lost, Refused):
            self._socket.ask(CLOSE, CLOSE_FIELDS.pack(target.handle, 0), CLOSED,
                             CLOSED_FIELDS)

    def _place(self, target: _Target, a_bytes: int,
               c_bytes: int) -> tuple[_Flight, int, int]:
        """A slot, and room for A and C. Raises NotCarried without."""
        with self._lock:
            ranges: list[tuple[int, int]] = []
            for size in (a_bytes, c_bytes):
                taken = self._ranges.take(size) if self._free_slots else None
                if taken is None:
                    for each in ranges:
                        self._ranges.give_back(each)
                    raise NotCarried
                ranges.append(taken)
            slot = self._free_slots.pop()
            self._cookies[slot] = self._cookies[slot] + 1 & 0xFFFFFFFF
            target.users += 1
            return (_Flight(target, ranges, slot, self._cookies[slot]),
                    ranges[0][0], ranges[1][0])

    def _publish(self, flight: _Flight, rows: int, a_at: int, a_bytes: int, c_at: int,
                 c_bytes: int, timeout_ns: int, numbers: tuple[int, ...]) -> None:
        with self._lock:
            _REQUEST.pack_into(
                self._memory,
                self._requests + _REQUEST_BYTES * (self._published % self._slots),
                flight.target.handle, rows, flight.slot, flight.cookie, a_at, a_bytes,
                c_at, c_bytes, timeout_ns, *numbers)
            self._published += 1
            self._long_words[_PUBLISHED // 8] = self._published
        # Releasing a lock orders the store before this load; should a processor
        # need more, a sleeper rings as well.
        if self._words[_SERVER_SLEEPS // 4]:
            self._ring()

    def _ring(self) -> None:
        os.write(self._doorbell, struct.pack("=Q", 1))

    def _is_done(self, flight: _Flight) -> bool:
        at = self._completions + _COMPLETION_BYTES * flight.slot
        return bool(self._words[at // 4] == flight.cookie)

    def _free(self, flights: Sequence[_Flight]) -> None:
        for flight in flights:
            with self._lock:
                for each in flight.ranges:
                    self._ranges.give_back(each)
                self._free_slots.append(flight.slot)
            self._release(flight.target)

    def _free_abandoned(self) -> None:
        with self._lock:
            done = [each for each in self._abandoned if self._is_done(each)]
            self._abandoned = [each for each in self._abandoned if each not in done]
        self._free(done)

    def _answer(self, compute: Compute, flight: _Flight, c_at: int,
                c_bytes: int) -> Any:
        at = self._completions + _COMPLETION_BYTES * flight.slot
        code = self._words[at // 4 + 2]
        if code:
            retry, _, message = _ERROR.unpack_from(self._memory, at + 64)
            raise errors.make_numbered(
                code, message[:self._words[at // 4 + 3]].decode(errors="replace"),
                retry * 1e-9 if retry else None)
        compute.note_times(*_TIMES.unpack_from(self._memory, at + 16))
        return compute.whole(self._bytes[c_at:c_at + c_bytes])

    # Waiting ------------------------------------------------------------------------

    def _wait(self, flight: _Flight, deadline: Optional[float]) -> bool:
        """True once the answer is there; False at the deadline."""
        end = time.perf_counter() + SPIN_SECONDS
        while True:
            if self._is_done(flight):
                return True
            if time.perf_counter() >= end:
                break
        with self._turn:
            self._sleepers.append(flight)
        try:
            return self._sleep(flight, deadline)
        finally:
            with self._turn:
                self._sleepers.remove(flight)

    def _sleep(self, flight: _Flight, deadline: Optional[float]) -> bool:
        """One of those who sleep waits on the wake socket for all of them."""
        while True:
            ended = self._has_ended
            if self._is_done(flight):
                return True
            if ended:
                raise Lost("the lane has ended")
            left = _TURN_SECONDS
            if deadline is not None:
                left = min(left, deadline - time.monotonic())
                if left <= 0:
                    return False
            with self._turn:
                if self._has_leader:
                    if not self._is_done(flight):
                        self._turn.wait(left)
                    continue
                self._has_leader = True
            try:
                self._await_wake(left)
            finally:
                with self._turn:
                    self._has_leader = False
                    self._turn.notify_all()

    def _await_wake(self, timeout: float) -> None:
        self._words[_CLIENT_SLEEPS // 4] = 1
        with self._turn:  # orders the store before the loads
            waits = not any(map(self._is_done, self._sleepers))
        try:
            if not waits:
                return
            poll = select.poll()
            poll.register(self._wake, select.POLLIN)
            poll.register(self._socket, select.POLLIN)
            ready = dict(poll.poll(timeout * 1000))
            if not ready and self._words[_SERVER_SLEEPS // 4]:
                self._ring()
        finally:
            self._words[_CLIENT_SLEEPS // 4] = 0
        if self._wake in ready:
            with contextlib.suppress(BlockingIOError):
                while os.read(self._wake, 16):
                    pass
        if self._socket.fileno() in ready and self._socket.is_at_end():
            self._has_ended = True
