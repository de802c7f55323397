# SPDX-License-Identifier: Apache-2.0
"""Parts of a lane (docs/lane.md): its socket, and who has which of its operands."""

from __future__ import annotations

import bisect
import contextlib
import os
import select
import socket
import struct
import threading
from typing import Any, Optional

MAGIC, VERSION = 0x4E4C4751, 1
HELLO, ACCEPT, OPEN, OPENED, CLOSE, CLOSED, END = range(1, 8)
HEADER = struct.Struct("<IHHII")  # magic, kind, version, sequence, code
HELLO_FIELDS = struct.Struct("<QII")
ACCEPT_FIELDS = struct.Struct("<QQQQQQII")
OPEN_FIELDS = struct.Struct("<IIII")
OPENED_FIELDS = struct.Struct("<IIQQQQ64sII")
CLOSE_FIELDS = CLOSED_FIELDS = END_FIELDS = struct.Struct("<II")
ALIGNMENT = 64  # of operands
_PACKET_BYTES = 8192


class Lost(Exception):
    """The lane has ended."""


class Refused(Exception):
    """An answer with a code of gRPC's that is not 0."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code, self.text = code, text


class Ranges:
    """Divides the operands, first fit: offsets and sizes of what is free."""

    def __init__(self, size: int) -> None:
        self.free = [(0, size // ALIGNMENT * ALIGNMENT)]

    def take(self, size: int) -> Optional[tuple[int, int]]:
        size = -(-size // ALIGNMENT) * ALIGNMENT
        for i, (offset, free) in enumerate(self.free):
            if free >= size:
                self.free[i:i + 1] = (
                    [(offset + size, free - size)] if free > size else [])
                return offset, size
        return None

    def give_back(self, taken: tuple[int, int]) -> None:
        free, (offset, size) = self.free, taken
        i = bisect.bisect(free, taken)
        if i < len(free) and free[i][0] == offset + size:
            size += free.pop(i)[1]
        if i and sum(free[i - 1]) == offset:
            free[i - 1] = (free[i - 1][0], free[i - 1][1] + size)
        else:
            free.insert(i, (offset, size))


class LaneSocket:
    """The socket of a lane: asks and answers, and the lane's end. Thread-safe."""

    def __init__(self, path: str, timeout: float) -> None:
        """Raises OSError."""
        self._lock = threading.Lock()
        self._sequence = 0
        self.is_lost = False  # an answer did not come, or was none
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(timeout)
        try:
            self._socket.connect(path)
        except OSError:
            self._socket.close()
            raise

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def hang_up(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def greet(self, operand_bytes: int, slots: int,
              token: bytes) -> tuple[tuple[Any, ...], list[int]]:
        """The fields of the lane's accept, and the descriptors that came with it.

        Raises OSError, ValueError, Lost and Refused."""
        self._send(HELLO, HELLO_FIELDS.pack(operand_bytes, slots, len(token)) + token)
        packet, descriptors, _, _ = socket.recv_fds(self._socket, _PACKET_BYTES, 3)
        try:
            fields = self._fields(packet, ACCEPT, ACCEPT_FIELDS)
            if len(descriptors) != 3:
                raise ValueError(f"{len(descriptors)} descriptors came; expected 3")
        except BaseException:
            for descriptor in descriptors:
                os.close(descriptor)
            raise
        return fields, list(descriptors)

    def ask(self, kind: int, body: bytes, answer: int,
            form: struct.Struct) -> tuple[Any, ...]:
        """The fields of the answer. Raises Lost and Refused; the socket ends with an
        answer that is late or wrong, which the next question must not get."""
        with self._lock:
            try:
                self._send(kind, body)
                return self._fields(self._socket.recv(_PACKET_BYTES), answer, form)
            except Refused:
                raise
            except BaseException as failed:
                self.is_lost = True
                self.hang_up()
                if isinstance(failed, (OSError, ValueError)):
                    raise Lost(str(failed)) from None
                raise

    def is_at_end(self) -> bool:
        """True if the next packet is the lane's last, or none comes any more."""
        poll = select.poll()  # a recv would wait for as long as the socket's timeout
        poll.register(self._socket, select.POLLIN)
        if not poll.poll(0):
            return False
        try:
            packet = self._socket.recv(
                _PACKET_BYTES, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return not packet or (len(packet) >= HEADER.size and
                              HEADER.unpack_from(packet)[1] == END)

    def _send(self, kind: int, body: bytes) -> None:
        self._sequence += 1
        self._socket.send(HEADER.pack(MAGIC, kind, VERSION, self._sequence, 0) + body)

    def _fields(self, packet: bytes, kind: int,
                form: struct.Struct) -> tuple[Any, ...]:
        """The fields of an answer of that kind."""
        if not packet:
            raise Lost("the server hung up")
        if len(packet) >= HEADER.size + END_FIELDS.size:
            magic, got, _, sequence, code = HEADER.unpack_from(packet)
            if (magic, got) == (MAGIC, END):
                text = packet[HEADER.size + END_FIELDS.size:]
                raise Lost(f"the server ended it: {text.decode(errors='replace')}")
            end = HEADER.size + form.size
            if ((magic, got, sequence) == (MAGIC, kind, self._sequence) and
                    len(packet) >= end):
                if code:
                    raise Refused(code, packet[end:].decode(errors="replace"))
                return form.unpack_from(packet, HEADER.size)
        raise ValueError(f"the server sent {len(packet)} bytes that are no answer")
