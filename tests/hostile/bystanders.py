# SPDX-License-Identifier: Apache-2.0
"""Clients that use the server as its users do while others attack it, check
every product against fp64, and measure how long they wait."""

import math
import threading
import time

import grpc
from qgemm.v1 import qgemm_pb2 as pb

import layers

CALL_LIMIT_S = 60        # liveness: an answer later than this is a lost one
RETRY_LIMIT_S = 60       # so long may refusals that ask for a retry go on
RETRY_PAUSE_S = 0.05
PAUSE_S = 0.005          # between the calls of one client
UPLOAD_PAUSE_S = 0.3
STREAM_REQUESTS = 50
STREAM_LIMIT_S = 2 * CALL_LIMIT_S
HEALTH_CHECK = "/grpc.health.v1.Health/Check"
SERVING = b"\x08\x01"   # a HealthCheckResponse


class Record:
    """Latencies and failures of all bystanders. Thread-safe."""

    def __init__(self):
        self._lock = threading.Lock()
        self._latencies = {}
        self._problems = []
        self._refused = 0

    def add(self, kind, seconds):
        with self._lock:
            self._latencies.setdefault(kind, []).append(seconds)

    def add_problem(self, text):
        with self._lock:
            self._problems.append(text)

    def add_refusal(self):
        with self._lock:
            self._refused += 1

    def take(self):
        """What was recorded since the last time."""
        with self._lock:
            taken = Summary(self._latencies, self._problems, self._refused)
            self._latencies, self._problems, self._refused = {}, [], 0
        return taken


class Summary:
    """A record's content: latencies in s by kind, sorted."""

    def __init__(self, latencies, problems, refused):
        self.latencies = {kind: sorted(values)
                          for kind, values in latencies.items()}
        self.problems = problems
        self.refused = refused

    @property
    def answers(self):
        return sum(map(len, self.latencies.values()))

    def quantile_s(self, kind, quantile):
        """The answer that all but 1 - quantile of them, and but one at least,
        are not later than: a few answers have no later p99 than their second
        latest."""
        values = self.latencies.get(kind)
        if not values:
            return float("nan")
        later = max(1, math.ceil(len(values) * (1 - quantile)))
        return values[max(0, len(values) - 1 - later)]

    def __str__(self):
        kinds = [f"{kind} {1e3 * self.quantile_s(kind, 0.99):.0f}/"
                 f"{1e3 * values[-1]:.0f}"
                 for kind, values in sorted(self.latencies.items())]
        return (f"{self.answers} answers, {self.refused} refusals retried; "
                f"p99/max ms: {', '.join(kinds)}")


class Bystanders:
    """The clients, for a with block; `take` gives what they met. Each class of
    client has a thread: `tcp` and `unix` call Gemm, `program` runs a program,
    `stream` keeps a GemmStream open, `fresh` connects anew each time, over
    both, and asks for health too, and `upload` loads a layer, multiplies by it
    and unloads it."""

    KINDS = ("tcp", "unix", "program", "stream", "fresh", "upload")

    def __init__(self, addresses, kinds=KINDS, tcp_target=None):
        self._unix_target = addresses.unix_target
        self._tcp_target = tcp_target or addresses.tcp_target
        self._is_proxied = tcp_target is not None
        self._record = Record()
        self._stop = threading.Event()
        self._layer = layers.CheckedLayer("bystander/layer", 64, 96, 3, 1)
        self._threads = [
            threading.Thread(target=self._guarded, args=(kind,), daemon=True)
            for kind in kinds]

    def __enter__(self):
        with layers.channel_to(self._unix_target) as channel:
            self._layer.upload(layers.stub_of(channel), CALL_LIMIT_S)
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def take(self):
        return self._record.take()

    def _guarded(self, kind):
        try:
            getattr(self, f"_run_{kind}")()
        except Exception as error:  # pylint: disable=broad-exception-caught
            self._record.add_problem(f"{kind}: {describe(error)}")

    def _run_tcp(self):
        self._run_gemms("tcp", self._tcp_target)

    def _run_unix(self):
        self._run_gemms("unix", self._unix_target)

    def _run_gemms(self, kind, target):
        with layers.channel_to(target) as channel:
            stub = layers.stub_of(channel)
            while not self._stop.wait(PAUSE_S):
                self._call(kind, lambda: self._multiply(stub, kind))

    def _run_program(self):
        """A program of one product: its answer is the product's."""
        with layers.channel_to(self._tcp_target) as channel:
            stub = layers.stub_of(channel)
            self._call("program", lambda: stub.LoadProgram(
                pb.LoadProgramRequest(name="bystander/program",
                                      program=self._layer.program()),
                timeout=CALL_LIMIT_S))
            while not self._stop.wait(PAUSE_S):
                self._call("program", lambda: self._run(stub))

    def _run(self, stub):
        request = self._layer.request()
        answer = stub.Run(pb.RunRequest(
            program="bystander/program", m=request.m, inputs=request.a),
            timeout=CALL_LIMIT_S)
        if not self._layer.is_right(answer.outputs):
            self._record.add_problem("program: a wrong product")

    def _run_fresh(self):
        targets = [self._tcp_target, self._unix_target]
        while not self._stop.wait(10 * PAUSE_S):
            targets.reverse()
            with layers.channel_to(targets[0]) as channel:
                self._ask_afresh(channel)

    def _ask_afresh(self, channel):
        """Health, which must say SERVING, a page of a list, and a product."""
        check = channel.unary_unary(HEALTH_CHECK, bytes, bytes)
        health = self._call("fresh", lambda: check(b"", timeout=CALL_LIMIT_S))
        if health not in (SERVING, None):
            self._record.add_problem(f"health says {health!r}")
        stub = layers.stub_of(channel)
        self._call("fresh", lambda: stub.ListWeights(
            pb.ListWeightsRequest(page_size=1), timeout=CALL_LIMIT_S))
        self._call("fresh", lambda: self._multiply(stub, "fresh"))

    def _run_upload(self):
        layer = layers.CheckedLayer("bystander/upload", 32, 64, 2, 2)
        with layers.channel_to(self._tcp_target) as channel:
            stub = layers.stub_of(channel)
            while not self._stop.wait(UPLOAD_PAUSE_S):
                self._load(stub, layer)

    def _run_stream(self):
        while not self._stop.wait(PAUSE_S):
            self._call(None, self._stream_for_a_while)

    def _call(self, kind, action):
        """Runs the action until it is not refused; records how long it took,
        unless kind is None, or that it failed. None if it failed."""
        start = time.monotonic()
        limit = start + RETRY_LIMIT_S
        while True:
            try:
                result = action()
                if kind is not None:
                    self._record.add(kind, time.monotonic() - start)
                return result
            except grpc.RpcError as error:
                late = time.monotonic() > limit
                if not self._may_retry(kind, error.code()) or late:
                    self._record.add_problem(
                        f"{kind or 'stream'}: {describe(error)}")
                    return None
                self._record.add_refusal()
            if self._stop.wait(RETRY_PAUSE_S):
                return None
            if self._is_proxied:  # and shares its places with the attacker
                start = time.monotonic()

    def _may_retry(self, kind, code):
        """HAProxy 2.6 may say CANCELLED of an upload that the server has
        refused before its end, in place of the refusal."""
        return (code == grpc.StatusCode.RESOURCE_EXHAUSTED or
                (self._is_proxied and kind == "upload" and
                 code == grpc.StatusCode.CANCELLED))

    def _multiply(self, stub, kind):
        answer = stub.Gemm(self._layer.request(), timeout=CALL_LIMIT_S)
        if not self._layer.is_right(answer.c):
            self._record.add_problem(f"{kind}: a wrong product")

    def _load(self, stub, layer):
        loaded = self._call("upload", lambda: layer.upload(stub, CALL_LIMIT_S))
        if loaded is None:
            return
        answer = self._call("upload", lambda: stub.Gemm(layer.request(),
                                                        timeout=CALL_LIMIT_S))
        if answer is not None and not layer.is_right(answer.c):
            self._record.add_problem("upload: a wrong product")
        self._call("upload", lambda: stub.UnloadWeights(
            pb.UnloadWeightsRequest(weights=loaded.weights.id),
            timeout=CALL_LIMIT_S))

    def _stream_for_a_while(self):
        """Requests, one after the other, over one GemmStream."""
        sent = []
        turn = threading.Semaphore(1)

        def requests():
            for number in range(STREAM_REQUESTS):
                turn.acquire()  # pylint: disable=consider-using-with
                if self._stop.wait(PAUSE_S):
                    return
                gemm = self._layer.request()
                rows, gemm.a = gemm.a, b""
                sent.append(time.monotonic())
                yield pb.GemmStreamRequest(
                    request_id=number, a=rows,
                    open=pb.GemmStreamOpen(gemm=gemm))

        with layers.channel_to(self._tcp_target) as channel:
            try:
                for answer in layers.stub_of(channel).GemmStream(
                        requests(), timeout=STREAM_LIMIT_S):
                    self._take_answer(answer, sent[answer.request_id])
                    turn.release()
            finally:
                turn.release()

    def _take_answer(self, answer, sent):
        if answer.HasField("error"):
            if answer.error.retry_delay_ns:
                self._record.add_refusal()
            else:
                self._record.add_problem(f"stream: {answer.error.message}")
        elif not self._layer.is_right(answer.c):
            self._record.add_problem("stream: a wrong product")
        else:
            self._record.add("stream", time.monotonic() - sent)


def describe(error):
    if isinstance(error, grpc.RpcError):
        return f"{error.code().name}: {error.details()}"
    return repr(error)
