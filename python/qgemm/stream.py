# SPDX-License-Identifier: Apache-2.0
"""The blocking client's streams: many requests over one call (docs/stream.md)."""

from __future__ import annotations

import concurrent.futures
import queue
import threading
from typing import Any, Callable, Iterator, Optional, Sequence, Union

import grpc

from qgemm import errors, programs
from qgemm._calls import Compute, Gemm, Run
from qgemm._connection import Pool
from qgemm._stream import Book

Future = concurrent.futures.Future


class Stream:
    """Sends requests over one call and answers them by futures, in the order in which
    they are ready. A request that fails fails its own future; if the stream breaks,
    all that have no answer fail. Nothing is retried. An operand must not change until
    its future is done. Thread-safe; leaving its `with` block waits for all answers.

    Callbacks of futures run on the stream's own thread. They may send requests, which
    do not wait for the window there; they must not wait for answers."""

    def __init__(self, pool: Pool, window: int,
                 lookup: Callable[[str], programs.LoadedProgram]) -> None:
        self._pool = pool
        self._lookup = lookup
        if window < 1:
            raise ValueError(f"window = {window}; expected 1 or more")
        self._window = window
        self._unanswered = 0
        self._room = threading.Condition()  # guards _unanswered
        self._book = Book()
        self._outgoing: queue.SimpleQueue[Optional[Iterator[bytes]]] = (
            queue.SimpleQueue())
        self._closed = False
        self._server = pool.begin(1, set())
        self._call = self._server.method("stream_stream", "GemmStream")(
            self._messages(), metadata=pool.metadata())
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        if kind is not None:
            self._call.cancel()
        self.close()

    def gemm(self, weights: str, x: Any, *, out: Any = None,
             **options: Any) -> "Future[Any]":
        """As Client.gemm of one layer; waits while the window is full."""
        return self._submit(Gemm(weights, x, out=out, **options))

    def run(self, program: Union[str, programs.LoadedProgram], *inputs: Any,
            outs: Optional[Sequence[Any]] = None, time_ops: bool = False,
            **options: Any) -> "Future[Any]":
        """As Client.run; waits while the window is full."""
        loaded = self._lookup(program) if isinstance(program, str) else program
        return self._submit(Run(loaded, inputs, outs=outs, time_ops=time_ops,
                                **options))

    def close(self) -> None:
        """Takes no more requests and returns when all are answered."""
        if not self._closed:
            self._closed = True
            self._outgoing.put(None)
        self._reader.join()

    def _submit(self, compute: Compute) -> "Future[Any]":
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        self._enter_window()
        try:
            if self._closed:
                raise ValueError("the stream is closed")
            self._outgoing.put(self._book.add(compute, future))
        except Exception:
            self._leave_window(1)
            raise
        return future

    def _enter_window(self) -> None:
        """Waits while the window is full, except on the reader's thread, where a
        future's callback may send a request and which alone makes room."""
        with self._room:
            if threading.current_thread() is not self._reader:
                self._room.wait_for(lambda: self._unanswered < self._window)
            self._unanswered += 1

    def _leave_window(self, count: int) -> None:
        with self._room:
            self._unanswered -= count
            self._room.notify(count)

    def _messages(self) -> Iterator[bytes]:
        """Runs on gRPC's thread."""
        while True:
            request = self._outgoing.get()
            if request is None:
                return
            yield from request

    def _read(self) -> None:
        try:
            for message in self._call:
                if self._book.answer(message):
                    self._leave_window(1)
            failure: Exception = errors.make("UNAVAILABLE", "the stream has ended")
        except grpc.RpcError as failed:
            failure = errors.of_call(failed)
        except Exception as error:  # a message that makes no sense
            self._call.cancel()
            failure = error
        self._pool.end(self._server, 1)
        self._leave_window(self._book.end(failure))
        self._outgoing.put(None)  # gRPC's thread must not wait for requests
