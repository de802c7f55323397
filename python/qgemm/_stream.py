# SPDX-License-Identifier: Apache-2.0
"""Messages of a GemmStream (docs/stream.md), without a connection."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any, Iterator, Optional

from qgemm import _wire, errors
from qgemm._calls import Compute
from qgemm.v1 import qgemm_pb2 as pb

FRAGMENT_BYTES = 1 << 20


@dataclasses.dataclass
class _Request:
    compute: Compute
    future: Any  # concurrent.futures.Future or asyncio.Future
    size: int = -1  # of the answer, once its first message is there
    error: Optional[Exception] = None  # the answer cannot be put into `out`


class Book:
    """The requests of one stream that have no answer yet. A future is completed on
    the thread that brings its answer. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: dict[int, _Request] = {}
        self._last = 0
        self._failure: Optional[Exception] = None  # why the stream has ended

    def add(self, compute: Compute, future: Any) -> Iterator[bytes]:
        """The messages to send for a request. Raises what the stream ended with."""
        with self._lock:
            if self._failure is not None:
                raise self._failure
            self._last += 1
            self._requests[self._last] = _Request(compute, future)
            return _messages(self._last, compute)

    def answer(self, message: bytes) -> bool:
        """Takes a message of the server; True if it ends a request."""
        rest, data = _wire.split_operand(message)
        head = pb.GemmStreamResponse.FromString(rest)
        with self._lock:
            request = self._requests.get(head.request_id)
        if request is None:
            raise ValueError(f"the answer to request {head.request_id}, which is "
                             "not outstanding")
        if head.HasField("error"):
            delay = head.error.retry_delay_ns * 1e-9 or None
            request.error = errors.make_numbered(
                head.error.code, head.error.message, delay)
        else:
            _take(request, head, data)
            if head.offset + len(data) < request.size:
                return False
        self._end(head.request_id)
        return True

    def end(self, error: Exception) -> int:
        """Fails what has no answer, the stream having ended; returns how many."""
        with self._lock:
            self._failure = error
            left = dict(self._requests)
        for number, request in left.items():
            request.error = error
            self._end(number)
        return len(left)

    def _end(self, number: int) -> None:
        with self._lock:
            request = self._requests.pop(number)
        if request.future.cancelled():
            return
        result = None
        if request.error is None:
            try:
                result = request.compute.result()
            except Exception as error:
                request.error = error
        if request.error is not None:
            request.future.set_exception(request.error)
        else:
            request.future.set_result(result)


def _take(request: _Request, head: pb.GemmStreamResponse, data: memoryview) -> None:
    """Puts a part of an answer to its place. What the caller's arrays raise is that
    request's error: the others of the stream go on."""
    is_first = request.size < 0
    if is_first:
        request.size = head.c_bytes
    try:
        if is_first:
            request.compute.begin(head.c_bytes)
            request.compute.note(head.timings)
        if request.error is None:
            request.compute.write(head.offset, data)
    except Exception as error:
        request.error = error


def _messages(number: int, compute: Compute) -> Iterator[bytes]:
    """Of one request: `open` with the operand's first bytes, then fragments."""
    size = sum(map(len, compute.parts))
    opened = pb.GemmStreamRequest(request_id=number)
    getattr(opened.open, compute.method.lower()).MergeFromString(compute.head)
    if size <= FRAGMENT_BYTES:
        yield _wire.with_operand(opened.SerializeToString(), compute.parts)
        return
    opened.open.a_bytes = size
    head, offset = opened.SerializeToString(), 0
    for pieces in _cut(compute.parts):
        yield _wire.with_operand(head, pieces)
        offset += sum(map(len, pieces))
        head = pb.GemmStreamRequest(
            request_id=number,
            fragment=pb.GemmStreamFragment(offset=offset)).SerializeToString()


def _cut(parts: list[memoryview]) -> Iterator[list[memoryview]]:
    """The parts one behind the other, in runs of FRAGMENT_BYTES."""
    run: list[memoryview] = []
    room = FRAGMENT_BYTES
    for part in parts:
        while len(part):
            run.append(part[:room])
            part, room = part[room:], room - len(run[-1])
            if not room:
                yield run
                run, room = [], FRAGMENT_BYTES
    if run:
        yield run
