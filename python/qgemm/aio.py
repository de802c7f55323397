# SPDX-License-Identifier: Apache-2.0
"""The client for asyncio: qgemm.Client's methods as coroutines.

    async with await qgemm.aio.connect("unix:/run/qgemm.sock") as client:
        y = await client.gemm("mlp/up", x)

Arguments and errors are those of qgemm.Client. A client belongs to the event loop that
it was made in. Preparing and hashing weights takes the loop's thread.
"""

from __future__ import annotations

import asyncio
import functools
from typing import (Any, AsyncIterator, Awaitable, Callable, Iterator, Mapping,
                    Optional, Sequence, Union)

import grpc
import grpc.aio

from qgemm import _connection, _requests, _upload, arrays, errors, formats
from qgemm._calls import Call, Compute, Gemm, Run, T
from qgemm._connection import (Attempts, Options, Pool, Probes, RetryPolicy, Server,
                               Targets, Tls, Token)
from qgemm._requests import Page
from qgemm._stream import Book
from qgemm._upload import Progress, Resumption, Upload
from qgemm.programs import LoadedProgram, Program
from qgemm.v1 import qgemm_pb2 as pb


async def connect(targets: Targets, *, tls: Union[Tls, bool] = False,
                  token: Optional[str] = None, token_file: Optional[str] = None,
                  timeout: Optional[float] = 60.0, connect_timeout: float = 10.0,
                  max_message_bytes: int = 64 << 20,
                  retry: RetryPolicy = RetryPolicy()) -> "Client":
    """As qgemm.connect."""
    options = Options(tls, Token(token, token_file), max_message_bytes, retry, timeout)
    client = Client(targets, options)
    try:
        await client.wait(connect_timeout)
    except BaseException:
        await client.close()
        raise
    return client


class Client:
    """qgemm.Client for asyncio."""

    def __init__(self, targets: Targets, options: Options) -> None:
        self._options = options
        self._pool = Pool(targets, options, grpc.aio)

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """As qgemm.Client.close. Before Python 3.11 calls in progress end with
        asyncio.CancelledError instead."""
        self._pool.closed = True
        for server in self._pool.servers:
            await server.channel.close()

    async def wait(self, timeout: float) -> None:
        probes = Probes(self._pool, timeout)
        while True:
            try:
                await self._unary(_requests.info(), probes.next_timeout())
                return
            except errors.Error as failed:
                error = failed
            await asyncio.sleep(probes.pause_after(error))

    # Weights --------------------------------------------------------------------

    async def load(self, name: str, w: Any, *, bias: Any = None,
                   format: Union[str, formats.Format] = "dense",
                   where: str = "server", create_only: bool = False,
                   if_match: str = "", progress: Optional[Progress] = None,
                   resume: bool = False,
                   timeout: Optional[float] = None) -> pb.LoadWeightsResponse:
        spec, sections = _upload.layer(w, bias, format, where)
        return await self.load_packed(
            name, spec, sections, create_only=create_only, if_match=if_match,
            progress=progress, resume=resume, timeout=timeout)

    async def load_packed(self, name: str, spec: formats.WeightSpec,
                          sections: Mapping[str, Any], *, create_only: bool = False,
                          if_match: str = "", progress: Optional[Progress] = None,
                          resume: bool = False, timeout: Optional[float] = None
                          ) -> pb.LoadWeightsResponse:
        upload = Upload(name, spec, sections, progress, create_only, if_match, resume)
        return await self._at_every(
            lambda server: self._upload(upload, server, timeout))

    async def weights(self, prefix: str = "") -> list[pb.WeightsInfo]:
        return await self._pages(functools.partial(_requests.weights_page, prefix))

    async def describe(self, weights: str) -> pb.WeightsInfo:
        return await self._unary(_requests.describe(weights))

    async def unload(self, weights: str, *, if_match: str = "",
                     keep_on_disk: bool = False) -> bool:
        return await self._to_every(
            _requests.unload(weights, if_match, keep_on_disk))

    # Computing ------------------------------------------------------------------

    async def gemm(self, weights: Union[str, Sequence[str]], x: Any, *,
                   out: Any = None, timeout: Optional[float] = None,
                   **options: Any) -> Any:
        if isinstance(weights, str):
            compute = Gemm(weights, x, out=out, **options)
            return await self._unary(compute.call(), timeout)
        operand = arrays.as_operand(x)
        return list(await asyncio.gather(*(
            self._unary(Gemm(name, operand, **options).call(), timeout)
            for name in weights)))

    async def run(self, program: Union[str, LoadedProgram], *inputs: Any,
                  outs: Optional[Sequence[Any]] = None, time_ops: bool = False,
                  timeout: Optional[float] = None, **options: Any) -> Any:
        if isinstance(program, str):
            program = await self.program(program)
        compute = Run(program, inputs, outs=outs, time_ops=time_ops, **options)
        return await self._unary(compute.call(), timeout)

    def stream(self, window: int = 128) -> "Stream":
        """For `async with`; as qgemm.Client.stream."""
        return Stream(self._pool, window)

    # Programs -------------------------------------------------------------------

    async def load_program(self, name: str, program: Program, *,
                           create_only: bool = False,
                           if_match: str = "") -> LoadedProgram:
        return await self._to_every(_requests.load_program(
            name, program, create_only, if_match))

    async def program(self, name: str) -> LoadedProgram:
        return await self._unary(_requests.program(name))

    async def programs(self) -> list[pb.ProgramInfo]:
        return await self._pages(_requests.programs_page)

    async def unload_program(self, program: str, *, if_match: str = "") -> bool:
        return await self._to_every(_requests.unload_program(program, if_match))

    async def info(self) -> pb.GetServerInfoResponse:
        return await self._unary(_requests.info())

    # Calls ----------------------------------------------------------------------

    async def _pages(self, page: Callable[[str], Call[Page[T]]]) -> list[T]:
        found, token = await self._unary(page(""))
        while token:
            more, token = await self._unary(page(token))
            found += more
        return found

    async def _to_every(self, call: Call[T]) -> T:
        return await self._at_every(lambda server: self._unary(call, only=server))

    async def _at_every(self, act: Callable[[Server], Awaitable[T]]) -> T:
        answers: list[T] = []
        failed: list[tuple[Server, errors.Error]] = []
        for server in self._pool.servers:
            try:
                answers.append(await act(server))
            except errors.Error as error:
                failed.append((server, error))
        return _connection.outcome(answers, failed)

    async def _unary(self, call: Call[T], timeout: Optional[float] = None,
                     only: Optional[Server] = None) -> T:
        limit = self._options.timeout if timeout is None else timeout
        attempts = Attempts(self._pool, self._options.retry, limit, only)
        while True:
            server = attempts.begin(call.rows)
            try:
                message = await server.method("unary_unary", call.method)(
                    call.request, timeout=attempts.remaining(),
                    metadata=self._pool.metadata())
                return call.parse(message)
            except asyncio.CancelledError:
                self._raise_if_closed()
                raise
            except grpc.RpcError as failed:
                error = errors.of_call(failed)
            finally:
                self._pool.end(server, call.rows)
            await asyncio.sleep(attempts.pause_after(error))

    async def _upload(self, upload: Upload, server: Server,
                      timeout: Optional[float]) -> pb.LoadWeightsResponse:
        attempts = Attempts(self._pool, self._options.retry, timeout, server)
        resumption = Resumption(upload.resumes)
        while True:
            attempts.begin(1)
            try:
                resume = (await self._received(upload, resumption, server, attempts)
                          if resumption.resumes else None)
                message = await server.method("stream_unary", "LoadWeights")(
                    upload.messages(resume), timeout=attempts.remaining(),
                    metadata=self._pool.metadata())
                return upload.parse(message)
            except asyncio.CancelledError:
                if upload.failure is not None:
                    raise upload.failure from None
                self._raise_if_closed()
                raise
            except grpc.RpcError as failed:
                error = errors.of_call(failed)
            except errors.Unavailable as failed:
                error = failed
            finally:
                self._pool.end(server, 1)
            if not resumption.begins_anew(error):
                await asyncio.sleep(attempts.pause_after(error))

    async def _received(self, upload: Upload, resumption: Resumption, server: Server,
                        attempts: Attempts) -> int:
        call = upload.received()
        try:
            return call.parse(await server.method("unary_unary", call.method)(
                call.request, metadata=self._pool.metadata(),
                timeout=resumption.query_timeout(attempts.remaining())))
        except grpc.RpcError as failed:
            resumption.takes(errors.of_call(failed))
            return 0

    def _raise_if_closed(self) -> None:
        """After a CancelledError of a call: raises Cancelled if `close` ended the call
        and nobody its task. Before Python 3.11 that cannot be told."""
        cancelling = getattr(asyncio.current_task(), "cancelling", None)
        if self._pool.closed and cancelling is not None and not cancelling():
            raise errors.Cancelled("the client was closed") from None


class Stream:
    """qgemm.Stream for asyncio: `await stream.gemm(...)` is a request's answer, and
    requests of several tasks are in flight together."""

    def __init__(self, pool: Pool, window: int) -> None:
        self._pool = pool
        self._window = asyncio.Semaphore(window)
        self._book = Book()
        self._outgoing: asyncio.Queue[Optional[Iterator[bytes]]] = asyncio.Queue()

    async def __aenter__(self) -> "Stream":
        self._server = self._pool.begin(1, set())
        self._call = self._server.method("stream_stream", "GemmStream")(
            self._messages(), metadata=self._pool.metadata())
        self._reader = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, kind: Any, *_: object) -> None:
        if kind is not None:
            self._call.cancel()
        self._outgoing.put_nowait(None)
        await self._reader

    async def gemm(self, weights: str, x: Any, *, out: Any = None,
                   **options: Any) -> Any:
        return await self._answer(Gemm(weights, x, out=out, **options))

    async def run(self, program: LoadedProgram, *inputs: Any,
                  outs: Optional[Sequence[Any]] = None, time_ops: bool = False,
                  **options: Any) -> Any:
        return await self._answer(Run(program, inputs, outs=outs, time_ops=time_ops,
                                      **options))

    async def _answer(self, compute: Compute) -> Any:
        async with self._window:
            future = asyncio.get_running_loop().create_future()
            self._outgoing.put_nowait(self._book.add(compute, future))
            return await future

    async def _messages(self) -> AsyncIterator[bytes]:
        while True:
            request = await self._outgoing.get()
            if request is None:
                return
            for message in request:
                yield message

    async def _read(self) -> None:
        failure: Exception = errors.make("UNAVAILABLE", "the stream has ended")
        try:
            async for message in self._call:
                self._book.answer(message)
        except grpc.RpcError as failed:
            failure = errors.of_call(failed)
        except asyncio.CancelledError:
            failure = errors.make("CANCELLED", "the stream was cancelled")
        except Exception as error:  # a message that makes no sense
            self._call.cancel()
            failure = error
        self._pool.end(self._server, 1)
        self._book.end(failure)
        self._outgoing.put_nowait(None)  # ends the requests, if they have not ended
