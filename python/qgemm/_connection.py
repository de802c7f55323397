# SPDX-License-Identifier: Apache-2.0
"""Servers of a client: their addresses, credentials and channels, which of them
gets a call, and when a call that failed is made again.

One set of classes for blocking and asyncio channels alike: nothing here waits.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import random
import threading
import time
from typing import Any, Callable, Optional, Sequence, TypeVar, Union

import grpc

from qgemm import errors

SERVICE = "/qgemm.v1.Qgemm/"
DOWN_SECONDS = 1.0           # without calls after UNAVAILABLE, where others are
TOKEN_REFRESH_SECONDS = 1.0  # between looks at a token's file
# Of the first probe of each of several servers; then twice as long a round.
FIRST_PROBE_SECONDS = 1.0
PROBE_PAUSE_SECONDS = 0.05   # after a server that is not there

T = TypeVar("T")
Targets = Union[str, Sequence[str]]


@dataclasses.dataclass(frozen=True)
class Tls:
    """Certificates, each the path of a PEM file or the PEM text as bytes. Files are
    read when the client connects."""

    ca: Union[str, bytes, None] = None           # None: the authorities of gRPC
    certificate: Union[str, bytes, None] = None  # if servers ask for one
    key: Union[str, bytes, None] = None
    server_name: str = ""  # that certificates must have; "": the target's host

    def credentials(self) -> Any:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("Tls: certificate and key go together; one is missing")
        return grpc.ssl_channel_credentials(
            _pem(self.ca), _pem(self.key), _pem(self.certificate))


def _pem(source: Union[str, bytes, None]) -> Optional[bytes]:
    if source is None or isinstance(source, bytes):
        return source
    with open(source, "rb") as file:
        return file.read()


@dataclasses.dataclass(frozen=True)
class RetryPolicy:
    """UNAVAILABLE is retried at another server at once, else with exponential
    backoff; RESOURCE_EXHAUSTED after the time that the server named. Never past the
    call's deadline. Times are seconds."""

    max_attempts: int = 5  # 1: no retries
    initial_backoff: float = 0.05
    max_backoff: float = 2.0
    multiplier: float = 2.0
    jitter: float = 0.2  # share of a pause that is random
    honour_retry_info: bool = True
    # A call without a deadline fails rather than wait longer than this.
    max_retry_delay: float = 30.0


class Token:
    """The bearer token of each call. A file is read again a second or more after it
    was; while it is empty or missing the last token goes on. Thread-safe."""

    def __init__(self, text: Optional[str], file: Optional[str]) -> None:
        if text is not None and file is not None:
            raise ValueError("token and token_file are both set; give one")
        self._file = file
        self._text = text
        self._next_look = 0.0
        if file is not None:
            with open(file, encoding="ascii") as opened:
                self._text = opened.read()
        self._text = (self._text or "").strip()
        if not self._text and (text is not None or file is not None):
            raise ValueError("the token is empty")

    def __bool__(self) -> bool:
        return bool(self._text)

    def metadata(self) -> Optional[tuple[tuple[str, str], ...]]:
        text = self.text
        return (("authorization", f"Bearer {text}"),) if text else None

    @property
    def text(self) -> str:
        """The token now; "" if there is none."""
        now = time.monotonic()
        if self._file is not None and now >= self._next_look:
            self._next_look = now + TOKEN_REFRESH_SECONDS
            try:
                with open(self._file, encoding="ascii") as opened:
                    self._text = opened.read().strip() or self._text
            except (OSError, UnicodeDecodeError):
                pass
        return self._text or ""


@dataclasses.dataclass(frozen=True)
class Options:
    """How a client connects; `qgemm.connect` says what they mean."""

    tls: Union[Tls, bool] = False
    token: Token = dataclasses.field(default_factory=lambda: Token(None, None))
    max_message_bytes: int = 64 << 20
    retry: RetryPolicy = RetryPolicy()
    timeout: Optional[float] = 60.0
    lane: str = "off"


class Server:
    """One server's channel and how busy this client keeps it."""

    def __init__(self, address: str, channel: Any) -> None:
        self.address = address
        self.channel = channel
        self.rows = 0          # in flight
        self.down_until = 0.0  # time.monotonic()
        self._methods: dict[str, Any] = {}

    def method(self, kind: str, name: str) -> Any:
        """The channel's callable for a method; messages are bytes, both ways. kind
        is unary_unary, stream_unary or stream_stream."""
        if name not in self._methods:
            self._methods[name] = getattr(self.channel, kind)(SERVICE + name)
        return self._methods[name]


class Pool:
    """The servers of a client. Thread-safe."""

    def __init__(self, targets: Targets, options: Options, factory: Any) -> None:
        """`factory` has insecure_channel and secure_channel: grpc or grpc.aio."""
        self._options = options
        self._lock = threading.Lock()
        self._turn = 0
        self.closed = False  # by the client's owner
        self.servers = [
            Server(address, self._channel(address, factory))
            for address in _addresses(targets)]

    def _channel(self, target: str, factory: Any) -> Any:
        secure, address = _split_scheme(target)
        tls = self._options.tls
        if isinstance(tls, Tls) or tls is True:
            secure = secure or not address.startswith("unix:")
        if self._options.token and not secure and not _is_local(address):
            raise ValueError(f"{target}: a token goes by TLS, a Unix socket or "
                             "loopback alone; set tls, or give no token")
        arguments: list[tuple[str, Any]] = [
            ("grpc.max_send_message_length", self._options.max_message_bytes),
            ("grpc.max_receive_message_length", self._options.max_message_bytes),
            ("grpc.enable_http_proxy", 0),
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 5000)]
        if not _is_local(address):
            arguments += [("grpc.keepalive_time_ms", 20000),
                          ("grpc.keepalive_timeout_ms", 10000)]
        if not secure:
            return factory.insecure_channel(address, arguments)
        made = tls if isinstance(tls, Tls) else Tls()
        if made.server_name:
            arguments.append(("grpc.ssl_target_name_override", made.server_name))
        return factory.secure_channel(address, made.credentials(), arguments)

    def begin(self, rows: int, avoided: set[Server]) -> Server:
        """The server for a call: of those that are up and not avoided the one with
        the fewest rows in flight, in turn among equals.

        Raises Cancelled if the client is closed."""
        if self.closed:
            raise errors.Cancelled("the client is closed")
        if len(self.servers) == 1:
            return self.servers[0]
        with self._lock:
            now = time.monotonic()
            count = len(self.servers)
            self._turn += 1
            best = min(range(count), key=lambda i: (
                self.servers[i] in avoided, self.servers[i].down_until > now,
                self.servers[i].rows, (i - self._turn) % count))
            self.servers[best].rows += rows
            return self.servers[best]

    def others(self, server: Server) -> set[Server]:
        return set(self.servers) - {server}

    def end(self, server: Server, rows: int) -> None:
        if len(self.servers) == 1:
            return
        with self._lock:
            server.rows -= rows

    def metadata(self) -> Any:
        """Of each call."""
        return self._options.token.metadata() if self._options.token else None


class Attempts:
    """The attempts of one call, on one thread."""

    def __init__(self, pool: Pool, policy: RetryPolicy, timeout: Optional[float],
                 only: Optional[Server] = None) -> None:
        """only: the one server that the call is for."""
        self._pool = pool
        self._policy = policy
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._number = 0
        self._tried: set[Server] = pool.others(only) if only else set()

    def begin(self, rows: int) -> Server:
        self._number += 1
        self._server = self._pool.begin(rows, self._tried)
        return self._server

    def remaining(self) -> Optional[float]:
        if self._deadline is None:
            return None
        return max(0.0, self._deadline - time.monotonic())

    def pause_after(self, error: errors.Error) -> float:
        """Seconds until the next attempt. Raises `error` if there is none, and
        Cancelled if the client was closed meanwhile."""
        if self._pool.closed:
            raise errors.Cancelled("the client was closed")
        self._tried.add(self._server)
        pause = self._pause(error)
        remaining = self.remaining()
        if (pause is None or self._number >= self._policy.max_attempts or
                (remaining is not None and pause >= remaining)):
            raise error
        return pause

    def _pause(self, error: errors.Error) -> Optional[float]:
        policy, delay = self._policy, error.retry_after
        if error.code == "UNAVAILABLE":
            self._server.down_until = time.monotonic() + DOWN_SECONDS
            if self._tried != set(self._pool.servers):
                return 0.0
            base = min(policy.max_backoff, policy.initial_backoff *
                       policy.multiplier**(self._number - 1))
            return base * (1 + policy.jitter * random.uniform(-1, 1))
        if (error.code != "RESOURCE_EXHAUSTED" or delay is None or
                not policy.honour_retry_info):
            return None
        if self._deadline is None and delay > policy.max_retry_delay:
            return None
        return delay * (1 + policy.jitter * random.random())


class Probes:
    """The calls by which a client waits for the first server that accepts: they go
    to the servers in turn. One that takes connections and stays silent gets a share
    of the time alone, so that the others have theirs."""

    def __init__(self, pool: Pool, timeout: float) -> None:
        self._servers = len(pool.servers)
        self._deadline = time.monotonic() + timeout
        self._number = 0

    def next_timeout(self) -> float:
        """Seconds of the next probe."""
        number, self._number = self._number, self._number + 1
        if self._servers == 1:
            return self._remaining()
        rounds, in_round = divmod(number, self._servers)
        return min(self._remaining() / (self._servers - in_round),
                   FIRST_PROBE_SECONDS * 2.0**min(rounds, 16))

    def pause_after(self, error: errors.Error) -> float:
        """Seconds until the next probe. Raises Unavailable if no time is left, and
        `error` if it is one that waiting does not help."""
        remaining = self._remaining()
        if error.code == "UNAVAILABLE" and remaining > 0:
            return min(PROBE_PAUSE_SECONDS, remaining)
        if error.code != "DEADLINE_EXCEEDED":
            raise error
        if remaining <= 0:
            raise errors.Unavailable(f"no server answers: {error.message}")
        return 0.0

    def _remaining(self) -> float:
        return max(0.0, self._deadline - time.monotonic())


def _addresses(targets: Targets) -> list[str]:
    listed = targets.split(",") if isinstance(targets, str) else list(targets)
    for target in listed:
        rest = _split_scheme(target)[1]
        if rest == "unix:" or not rest.rpartition(":")[0]:
            raise ValueError(f"target is {target!r}; expected host:port, "
                             "tls:host:port, unix:path or dns:///name:port")
    if not listed:
        raise ValueError("there is no target")
    return listed


def _split_scheme(target: str) -> tuple[bool, str]:
    if target.startswith("tls:"):
        return True, target[len("tls:"):]
    return False, target


def _is_local(address: str) -> bool:
    if address.startswith("unix:"):
        return True
    host = address.rpartition(":")[0].strip("[]")
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def to_every(pool: Pool, act: Callable[[Server], T]) -> T:
    """The first answer of `act` for each server in turn. NOT_FOUND counts as an
    error only if all say it; other errors are raised when all have had their turn."""
    answers: list[T] = []
    failed: list[tuple[Server, errors.Error]] = []
    for server in pool.servers:
        try:
            answers.append(act(server))
        except errors.Error as error:
            failed.append((server, error))
    return outcome(answers, failed)


def outcome(answers: list[T], failed: list[tuple[Server, errors.Error]]) -> T:
    """The first answer, or the error that names the servers that failed."""
    if answers:
        failed = [each for each in failed if each[1].code != "NOT_FOUND"]
    if not failed:
        return answers[0]
    first = failed[0][1]
    if len(answers) + len(failed) == 1:
        raise first
    where = ", ".join(server.address for server, _ in failed)
    raise errors.make(first.code, f"{first.message} [at {where}]", first.retry_after)
