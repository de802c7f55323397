# SPDX-License-Identifier: Apache-2.0
"""The blocking client. qgemm.aio has the same methods as coroutines."""

from __future__ import annotations

import functools
import time
from typing import Any, Callable, Mapping, Optional, Sequence, Union, overload

import grpc

from qgemm import (_connection, _lane, _lane_keeper, _lane_parts, _requests, _upload,
                   arrays, errors, formats)
from qgemm._calls import Call, Compute, Gemm, Run, T
from qgemm._connection import (Attempts, Options, Pool, Probes, RetryPolicy, Server,
                               Targets, Tls, Token)
from qgemm._requests import Page
from qgemm._upload import Progress, Resumption, Upload
from qgemm.programs import LoadedProgram, Program
from qgemm.stream import Stream
from qgemm.v1 import qgemm_pb2 as pb


def connect(targets: Targets, *, tls: Union[Tls, bool] = False,
            token: Optional[str] = None, token_file: Optional[str] = None,
            timeout: Optional[float] = 60.0, connect_timeout: float = 10.0,
            max_message_bytes: int = 64 << 20,
            retry: RetryPolicy = RetryPolicy(), lane: str = "auto") -> "Client":
    """A client of a server, once it accepts.

    targets: "unix:PATH", "HOST:PORT", "tls:HOST:PORT" or "dns:///NAME:PORT"; several,
    in a list or with commas, are servers that hold the same weights and divide the
    calls. tls: True, or certificates, for all targets but unix:. token, token_file:
    sent with each call. timeout: seconds of a call that names none; None: no limit.
    connect_timeout: seconds to wait for the first server that accepts.
    max_message_bytes: of a request or answer; the server has its own limit.
    lane: "auto" has gemm and run go by memory shared with the server (docs/lane.md),
    if it is one, at unix:PATH, and offers that; "required" raises without; or "off".

    Raises Unavailable with gRPC's reason if no server accepts in time."""
    options = Options(tls, Token(token, token_file), max_message_bytes, retry, timeout,
                      lane)
    client = Client(targets, options)
    try:
        client.wait(connect_timeout)
        client.open_lane(connect_timeout)
    except BaseException:
        client.close()
        raise
    return client


class Client:
    """A client of one server, or of several that hold the same weights. Thread-safe.

    timeout: seconds that a call has with all its retries; None: the client's own.
    priority: "low", "normal" or "high". client_id: whom a request counts for among
    the clients of one identity. Errors are qgemm.Error; ValueError and TypeError for
    arguments that cannot be sent.
    """

    def __init__(self, targets: Targets, options: Options) -> None:
        self._options = options
        self._pool = Pool(targets, options, grpc)
        self._lane: Optional[_lane_keeper.Keeper] = None

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends calls in progress, and all that follow, with Cancelled."""
        self._pool.closed = True
        if self._lane is not None:
            self._lane.close()
        for server in self._pool.servers:
            server.channel.close()

    def wait(self, timeout: float) -> None:
        """Returns once a server accepts. Raises Unavailable if none does in time."""
        probes = Probes(self._pool, timeout)
        while True:
            try:
                self._unary(_requests.info(), probes.next_timeout())
                return
            except errors.Error as failed:
                error = failed
            time.sleep(probes.pause_after(error))

    def open_lane(self, timeout: float) -> None:
        """Opens the lane, if there is to be one. Of `connect`."""
        use, servers = self._options.lane, self._pool.servers
        if use not in ("auto", "off", "required"):
            raise ValueError(f"lane is {use!r}; expected auto, off or required")
        is_local = len(servers) == 1 and servers[0].address.startswith("unix:")
        if use == "required" and not is_local:
            raise ValueError("lane is required; it needs one target unix:PATH")
        if use == "off" or not is_local:
            return
        keeper = _lane_keeper.Keeper(self._lane_path, lambda: self._options.token.text,
                              use == "required")
        try:
            keeper.open(timeout if use == "required" else
                        min(timeout, _lane_keeper.OPEN_SECONDS))
        except errors.Error:
            if use == "required":
                raise
            return
        self._lane = keeper

    @property
    def has_lane(self) -> bool:
        """True if gemm and run go by a lane now."""
        return self._lane is not None and self._lane.lane() is not None

    # Weights --------------------------------------------------------------------

    def load(self, name: str, w: Any, *, bias: Any = None,
             format: Union[str, formats.Format] = "dense", where: str = "server",
             create_only: bool = False, if_match: str = "",
             progress: Optional[Progress] = None, resume: bool = False,
             timeout: Optional[float] = None) -> pb.LoadWeightsResponse:
        """Uploads a matrix w [n, k] of floats and binds the name to it.

        format: a name of qgemm.formats.BY_NAME or a format. where: "server" sends
        the floats and has the server quantize; "client" quantizes here, which sends
        less and takes longer. bias: [n]. create_only, if_match: only if the name is
        free, or bound to that id. progress: called with the bytes sent and all, on
        another thread; what it raises ends the upload. An attempt that is cut off
        goes on, at the next one, where the server came to; resume: the first goes on
        where a load of another process did. timeout: None is no limit.
        Weights that the server holds already are not taken again (.deduplicated)."""
        spec, sections = _upload.layer(w, bias, format, where)
        return self.load_packed(name, spec, sections, create_only=create_only,
                                if_match=if_match, progress=progress, resume=resume,
                                timeout=timeout)

    def load_packed(self, name: str, spec: formats.WeightSpec,
                    sections: Mapping[str, Any], *, create_only: bool = False,
                    if_match: str = "", progress: Optional[Progress] = None,
                    resume: bool = False,
                    timeout: Optional[float] = None) -> pb.LoadWeightsResponse:
        """Uploads the sections of a spec: buffers, or formats.Sections, by name, as
        docs/formats.md has them. Else as `load`."""
        upload = Upload(name, spec, sections, progress, create_only, if_match, resume)
        return _connection.to_every(
            self._pool, lambda server: self._upload(upload, server, timeout))

    def weights(self, prefix: str = "") -> list[pb.WeightsInfo]:
        """All layers that the client may read, or those with a name that begins so."""
        return self._pages(functools.partial(_requests.weights_page, prefix))

    def describe(self, weights: str) -> pb.WeightsInfo:
        """The layer of a name or id."""
        return self._unary(_requests.describe(weights))

    def unload(self, weights: str, *, if_match: str = "",
               keep_on_disk: bool = False) -> bool:
        """Drops a name, or an id with all its names; True if the weights went.

        keep_on_disk: drops their memory alone, so that they stay on the server's
        disk under their names, and the next call brings them back; False then."""
        return self._to_every(_requests.unload(weights, if_match, keep_on_disk))

    # Computing ------------------------------------------------------------------

    @overload
    def gemm(self, weights: str, x: Any, *, out: Any = ..., dtype: Optional[str] = ...,
             mode: str = ..., rounding: Optional[str] = ..., priority: str = ...,
             client_id: str = ..., timings: Optional[pb.Timings] = ...,
             timeout: Optional[float] = ...) -> Any: ...

    @overload
    def gemm(self, weights: Sequence[str], x: Any, *, dtype: Optional[str] = ...,
             mode: str = ..., rounding: Optional[str] = ..., priority: str = ...,
             client_id: str = ..., timeout: Optional[float] = ...) -> list[Any]: ...

    def gemm(self, weights: Union[str, Sequence[str]], x: Any, *, out: Any = None,
             timeout: Optional[float] = None, **options: Any) -> Any:
        """x [..., k] times the weights' transpose plus bias: [..., n].

        weights: a name or id; or several, which are asked for at once, for a list.
        x: NumPy, torch, or DLPack in host memory; the result is torch for torch, else
        NumPy. out: array that takes the result. dtype: fp32, fp16 or bf16, of the
        result; by default x's. mode: A16, A8 or A32. rounding: fp16 or bf16, for an
        fp32 x in mode A16. timings: filled with the server's times."""
        if isinstance(weights, str):
            compute = Gemm(weights, x, out=out, **options)
            return self._compute(compute, timeout)
        operand = arrays.as_operand(x)
        calls = [Gemm(name, operand, **options).call() for name in weights]
        return self._all_at_once(calls, timeout)

    def run(self, program: Union[str, LoadedProgram], *inputs: Any,
            outs: Optional[Sequence[Any]] = None, time_ops: bool = False,
            timeout: Optional[float] = None, **options: Any) -> Any:
        """Runs a program on inputs [..., width], which are rounded to their types.

        Returns the output, or a tuple of several. program: of `load_program`, or a
        name, which is looked up first. outs: arrays that take the outputs. time_ops:
        asks for timings.op_ns. options: priority, client_id and timings, as gemm's."""
        loaded = self.program(program) if isinstance(program, str) else program
        compute = Run(loaded, inputs, outs=outs, time_ops=time_ops, **options)
        return self._compute(compute, timeout)

    def stream(self, window: int = 128) -> "Stream":
        """A stream for many requests over one call, and for operands beyond
        max_message_bytes. `window` requests at most have no answer."""
        return Stream(self._pool, window, self.program)

    # Programs -------------------------------------------------------------------

    def load_program(self, name: str, program: Program, *,
                     create_only: bool = False,
                     if_match: str = "") -> LoadedProgram:
        """Has the server check a program and make it ready, and binds the name."""
        return self._to_every(_requests.load_program(name, program, create_only,
                                                     if_match))

    def program(self, name: str) -> LoadedProgram:
        """The program of a name or id."""
        return self._unary(_requests.program(name))

    def programs(self) -> list[pb.ProgramInfo]:
        """All programs that the client may read."""
        return self._pages(_requests.programs_page)

    def unload_program(self, program: str, *, if_match: str = "") -> bool:
        """Drops a name, or an id with all its names; True if the program went."""
        return self._to_every(_requests.unload_program(program, if_match))

    def info(self) -> pb.GetServerInfoResponse:
        """One server's version, device, limits, formats and memory."""
        return self._unary(_requests.info())

    # Calls ----------------------------------------------------------------------

    def _pages(self, page: Callable[[str], Call[Page[T]]]) -> list[T]:
        found, token = self._unary(page(""))
        while token:
            more, token = self._unary(page(token))
            found += more
        return found

    def _to_every(self, call: Call[T]) -> T:
        return _connection.to_every(
            self._pool, lambda server: self._unary(call, only=server))

    def _lane_path(self, timeout: float) -> str:
        try:
            answer = self._pool.servers[0].method("unary_unary", "GetServerInfo")(
                b"", timeout=timeout, metadata=self._pool.metadata())
        except grpc.RpcError as failed:
            raise errors.of_call(failed) from None
        return str(pb.GetServerInfoResponse.FromString(answer).lane_path)

    def _compute(self, compute: Compute, timeout: Optional[float]) -> Any:
        """By the lane, if there is one that carries the call; else by gRPC."""
        keeper = self._lane
        if keeper is None:
            return self._unary(compute.call(), timeout)
        attempts = self._attempts(timeout)
        while True:
            attempts.begin(compute.rows)  # there is one server, which counts none
            try:
                lane = keeper.lane()
                if lane is None:
                    raise _lane_parts.Lost("there is none now")
                return lane.call(compute, attempts.remaining())
            except _lane.NotCarried:
                break
            except _lane_parts.Lost as lost:
                error: errors.Error = errors.Unavailable(f"the lane: {lost}")
            except errors.Error as failed:
                error = failed
            if error.code == "UNAVAILABLE" and not keeper.is_required:
                break
            time.sleep(attempts.pause_after(error))
        return self._unary(compute.call(), attempts.remaining())

    def _unary(self, call: Call[T], timeout: Optional[float] = None,
               only: Optional[Server] = None) -> T:
        return self._answered(call, self._attempts(timeout, only))

    def _answered(self, call: Call[T], attempts: Attempts) -> T:
        while True:
            server = attempts.begin(call.rows)
            try:
                message = server.method("unary_unary", call.method)(
                    call.request, timeout=attempts.remaining(),
                    metadata=self._pool.metadata())
                return call.parse(message)
            except grpc.RpcError as failed:
                error = errors.of_call(failed)
            finally:
                self._pool.end(server, call.rows)
            time.sleep(attempts.pause_after(error))

    def _upload(self, upload: Upload, server: Server,
                timeout: Optional[float]) -> pb.LoadWeightsResponse:
        attempts = Attempts(self._pool, self._options.retry, timeout, server)
        resumption = Resumption(upload.resumes)
        while True:
            attempts.begin(1)
            try:
                resume = (self._received(upload, resumption, server, attempts)
                          if resumption.resumes else None)
                message = server.method("stream_unary", "LoadWeights")(
                    upload.messages(resume), timeout=attempts.remaining(),
                    metadata=self._pool.metadata())
                return upload.parse(message)
            except grpc.RpcError as failed:
                error = errors.of_call(failed)
            except errors.Unavailable as failed:
                error = failed
            finally:
                self._pool.end(server, 1)
            if upload.failure is not None:
                raise upload.failure
            if not resumption.begins_anew(error):
                time.sleep(attempts.pause_after(error))

    def _received(self, upload: Upload, resumption: Resumption, server: Server,
                  attempts: Attempts) -> int:
        """Bytes of the upload that the server has."""
        call = upload.received()
        try:
            return call.parse(server.method("unary_unary", call.method)(
                call.request, metadata=self._pool.metadata(),
                timeout=resumption.query_timeout(attempts.remaining())))
        except grpc.RpcError as failed:
            resumption.takes(errors.of_call(failed))
            return 0

    def _all_at_once(self, calls: list[Call[T]],
                     timeout: Optional[float]) -> list[T]:
        """The answers of calls that are in flight together."""
        begun = []
        try:
            for call in calls:
                attempts = self._attempts(timeout)
                server = attempts.begin(call.rows)
                begun.append((call, attempts, server, server.method(
                    "unary_unary", call.method).future(
                        call.request, timeout=attempts.remaining(),
                        metadata=self._pool.metadata())))
            return [self._joined(call, attempts, future)
                    for call, attempts, _, future in begun]
        finally:
            for call, _, server, future in begun:
                future.cancel()
                self._pool.end(server, call.rows)

    def _joined(self, call: Call[T], attempts: Attempts, future: Any) -> T:
        """The answer of a first attempt in flight, or of those that follow it."""
        try:
            message = future.result()
        except grpc.RpcError as failed:
            error = errors.of_call(failed)
        else:
            return call.parse(message)
        time.sleep(attempts.pause_after(error))
        return self._answered(call, attempts)

    def _attempts(self, timeout: Optional[float],
                  only: Optional[Server] = None) -> Attempts:
        limit = self._options.timeout if timeout is None else timeout
        return Attempts(self._pool, self._options.retry, limit, only)
