# SPDX-License-Identifier: Apache-2.0
"""A lane, memory that this process and a server on its host share, by which a
blocking client makes its calls that compute. docs/lane.md has every byte of it.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import mmap
import os
import struct
import threading
import time
from typing import Any, Optional, Sequence

from qgemm import _futex, errors
from qgemm._calls import Compute, LaneWork
from qgemm._lane_parts import (ALIGNMENT, CLOSE, CLOSE_FIELDS, CLOSED, CLOSED_FIELDS,
                               OPEN, OPEN_FIELDS, OPENED, OPENED_FIELDS, LaneSocket,
                               Lost, Ranges, Refused)

OPERAND_BYTES = 16 << 20  # of a lane
SLOTS = 128
SPIN_SECONDS = 20e-6  # that a call looks for its answer before it sleeps
# After a call that looked in vain so many of the same target do not look: on two
# cores a spinning client takes one from the product (1024 x 1024, one row: 58 to
# 85 us with looking, 36 to 73 without; 64 x 64: 12 to 22 and 27 to 42).
CALLS_WITHOUT_SPIN = 15

_REQUEST = struct.Struct("<IIIIQQQQQBBBBB3x")
_ERROR = struct.Struct("<QQ432s")
_TIMES = struct.Struct("<QQQQQII")
_HEAD_BYTES, _REQUEST_BYTES, _COMPLETION_BYTES = 256, 64, 512
_PUBLISHED, _SERVER_SLEEPS, _ENDED = 0, 64 // 4, 192 // 4  # words of their size
_COOKIE, _SLEEPS, _CODE, _MESSAGE_BYTES = range(4)  # words of a completion
_RING = struct.pack("<Q", 1)
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
    calls_without_spin: int = 0  # that are left


@dataclasses.dataclass(eq=False)
class _Flight:
    """What a request holds until it is answered: a slot, and room for A and C."""

    target: _Target
    room: tuple[int, int]
    a_bytes: int
    c_at: int  # within the operands
    c_bytes: int
    slot: int
    cookie: int
    word: int  # where its completion begins


class Lane:
    """One lane, from its opening to its end. Thread-safe."""

    def __init__(self, path: str, token: str, timeout: float) -> None:
        """Raises errors.Error if the server refuses it or does not answer."""
        if not _futex.is_known():
            raise errors.make("UNAVAILABLE", "lanes need 64-bit Linux")
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
        self._has_ended = False

    def __del__(self) -> None:
        # Not in end(): threads may still wait for them.
        if hasattr(self, "_socket"):
            self._socket.close()
        for descriptor in getattr(self, "_descriptors", ()):
            os.close(descriptor)

    def _map(self, fields: tuple[Any, ...], descriptors: list[int]) -> None:
        (size, self._requests, self._completions, _, self._operands, operand_bytes,
         self._slots, _) = fields
        segment, self._doorbell, wake = descriptors
        self._descriptors = [self._doorbell, wake]
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
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        # Words are loaded and stored whole, in the machine's order.
        self._words = self._bytes.cast("I")
        self._long_words = self._bytes.cast("Q")
        self._ranges = Ranges(operand_bytes)

    def end(self) -> None:
        """Hangs up; calls in progress end with Lost, and so do all that follow."""
        self._has_ended = True
        self._socket.hang_up()
        for slot in range(self._slots):
            word = self._word_of(slot)
            if self._words[word + _SLEEPS]:
                _futex.wake(self._address + 4 * word)

    @property
    def has_ended(self) -> bool:
        return (self._has_ended or self._socket.is_lost or
                self._words[_ENDED] != 0)

    # Calls --------------------------------------------------------------------------

    def call(self, compute: Compute, timeout: Optional[float]) -> Any:
        """The result of one request; timeout: seconds left of the call.

        Raises NotCarried, Lost, and the server's errors."""
        deadline = None if timeout is None else time.monotonic() + timeout
        work = compute.lane_work
        if work is None or not 0 < compute.rows < 1 << 32:
            raise NotCarried
        if self._abandoned:
            self._free_abandoned()
        flight = self._begin(work, compute)
        at = self._operands + flight.room[0]
        for part in compute.parts:
            self._bytes[at:at + len(part)] = part
            at += len(part)
        try:
            self._publish(flight, compute.rows, deadline, work)
            is_done = self._wait(flight, deadline)
        except BaseException:
            self._abandoned.append(flight)
            raise
        if not is_done:
            self._abandoned.append(flight)
            raise errors.make("DEADLINE_EXCEEDED",
                              "the call's deadline passed before its answer came")
        try:
            return self._answer(compute, flight)
        except errors.Error as error:
            if error.code in ("NOT_FOUND", "INVALID_ARGUMENT"):
                self._forget(work.target, flight.target)
            if error.code == "INVALID_ARGUMENT":  # of another shape, perhaps
                raise NotCarried from None
            raise
        finally:
            self._free(flight)

    def _begin(self, work: LaneWork, compute: Compute) -> _Flight:
        """A flight of the work's target, which is opened if it is not."""
        a_bytes = sum(map(len, compute.parts))
        while True:
            with self._lock:
                target = self._targets.get(work.target)
                if target is not None:
                    if a_bytes == target.a_row * work.a_unit * compute.rows:
                        return self._place(
                            target, a_bytes, target.c_row * work.c_unit * compute.rows)
            if target is not None:
                self._forget(work.target, target)
                raise NotCarried
            self._open(work.target)

    def _open(self, key: tuple[str, str, str]) -> None:
        """Adds the target of a key."""
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
        with self._lock:
            if self._targets.setdefault(key, made) is made:
                return
        self._close(made)  # another thread was faster

    def _forget(self, key: tuple[str, str, str], target: _Target) -> None:
        with self._lock:
            if self._targets.get(key) is not target:
                return
            del self._targets[key]
            target.is_forgotten = True
            is_unused = not target.users
        if is_unused:
            self._close(target)

    def _forget_all(self) -> None:
        with self._lock:
            targets = list(self._targets.items())
        for key, target in targets:
            self._forget(key, target)

    def _close(self, target: _Target) -> None:
        with contextlib.suppress(Lost, Refused):
            self._socket.ask(CLOSE, CLOSE_FIELDS.pack(target.handle, 0), CLOSED,
                             CLOSED_FIELDS)

    def _place(self, target: _Target, a_bytes: int, c_bytes: int) -> _Flight:
        """A flight; holds the lock. Raises NotCarried without a slot and room."""
        c_begin = -(-a_bytes // ALIGNMENT) * ALIGNMENT
        room = self._ranges.take(c_begin + c_bytes) if self._free_slots else None
        if room is None:
            raise NotCarried
        slot = self._free_slots.pop()
        cookie = self._cookies[slot] = self._cookies[slot] + 1 & 0xFFFFFFFF
        target.users += 1
        return _Flight(target, room, a_bytes, room[0] + c_begin, c_bytes, slot, cookie,
                       self._word_of(slot))

    def _word_of(self, slot: int) -> int:
        return int(self._completions + _COMPLETION_BYTES * slot) // 4

    def _publish(self, flight: _Flight, rows: int, deadline: Optional[float],
                 work: LaneWork) -> None:
        timeout_ns = 0 if deadline is None else max(
            1, int((deadline - time.monotonic()) * 1e9))
        with self._lock:
            _REQUEST.pack_into(
                self._bytes,
                self._requests + _REQUEST_BYTES * (self._published % self._slots),
                flight.target.handle, rows, flight.slot, flight.cookie, flight.room[0],
                flight.a_bytes, flight.c_at, flight.c_bytes, timeout_ns, *work.numbers)
            self._published += 1
            self._long_words[_PUBLISHED] = self._published
        # Releasing a lock orders the store before this load; should a processor
        # need more, a sleeper rings as well.
        if self._words[_SERVER_SLEEPS]:
            os.write(self._doorbell, _RING)

    def _is_done(self, flight: _Flight) -> bool:
        return bool(self._words[flight.word] == flight.cookie)

    def _free(self, flight: _Flight) -> None:
        target = flight.target
        with self._lock:
            self._ranges.give_back(flight.room)
            self._free_slots.append(flight.slot)
            target.users -= 1
            is_over = target.is_forgotten and not target.users
        if is_over:
            self._close(target)

    def _free_abandoned(self) -> None:
        with self._lock:
            done = [each for each in self._abandoned if self._is_done(each)]
            for each in done:
                self._abandoned.remove(each)
        for each in done:
            self._free(each)

    def _answer(self, compute: Compute, flight: _Flight) -> Any:
        at = 4 * flight.word
        code = self._words[flight.word + _CODE]
        if code:
            retry, _, message = _ERROR.unpack_from(self._bytes, at + 64)
            message = message[:self._words[flight.word + _MESSAGE_BYTES]]
            raise errors.make_numbered(code, message.decode(errors="replace"),
                                       retry * 1e-9 if retry else None)
        if compute.wants_times:
            compute.note_times(*_TIMES.unpack_from(self._bytes, at + 16))
        begin = self._operands + flight.c_at
        return compute.whole(self._bytes[begin:begin + flight.c_bytes])

    # Waiting ------------------------------------------------------------------------

    def _wait(self, flight: _Flight, deadline: Optional[float]) -> bool:
        """True once the answer is there; False at the deadline."""
        words, word, cookie = self._words, flight.word, flight.cookie
        target = flight.target
        if target.calls_without_spin > 0:
            target.calls_without_spin -= 1
            return self._sleep(flight, deadline)
        end = time.perf_counter() + SPIN_SECONDS
        while words[word] != cookie:
            if time.perf_counter() >= end:
                target.calls_without_spin = CALLS_WITHOUT_SPIN
                return self._sleep(flight, deadline)
        return True

    def _sleep(self, flight: _Flight, deadline: Optional[float]) -> bool:
        words, word = self._words, flight.word
        while True:
            ended = self._has_ended  # first: an answer that came before it counts
            shown = words[word]
            if shown == flight.cookie:
                return True
            if ended:
                raise Lost("the lane has ended")
            left = _TURN_SECONDS
            if deadline is not None:
                left = min(left, deadline - time.monotonic())
                if left <= 0:
                    return False
            words[word + _SLEEPS] = 1
            try:  # the system looks at the cookie, after a fence, before it sleeps
                _futex.wait(self._address + 4 * word, shown, left)
            finally:
                words[word + _SLEEPS] = 0
            if not self._is_done(flight):
                self._look_after()

    def _look_after(self) -> None:
        """Of a sleeper whose answer does not come."""
        if self._words[_SERVER_SLEEPS]:
            os.write(self._doorbell, _RING)
        if self._socket.is_at_end():
            self._has_ended = True
