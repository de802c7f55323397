# SPDX-License-Identifier: Apache-2.0
"""A client of lanes, one request at a time, as any language can make it.

Written from docs/lane.md alone, so that it disagrees with the server where the
page does.
"""

import dataclasses
import mmap
import os
import select
import socket
import struct
import threading

MAGIC, VERSION = 0x4E4C4751, 1
HELLO, ACCEPT, OPEN, OPENED, CLOSE, CLOSED, END = range(1, 8)
WEIGHTS, PROGRAM = 1, 2
HEADER = struct.Struct("<IHHII")  # magic, kind, version, sequence, code
REQUEST = struct.Struct("<IIIIQQQQQBBBBB3x")
COMPLETION = struct.Struct("<IIIIQQQQQIIQQ432s")
REQUEST_BYTES, COMPLETION_BYTES, ALIGNMENT = 64, 512, 64
PUBLISHED, SERVER_SLEEPS, CLIENT_SLEEPS, ENDED = 0, 64, 128, 192


class Refused(Exception):
    """An answer whose code is not 0."""

    def __init__(self, code, text):
        super().__init__(f"{code}: {text}")
        self.code, self.text = code, text


@dataclasses.dataclass
class Opened:
    kind: int
    handle: int
    n: int
    k: int
    input_row_bytes: int
    output_row_bytes: int
    id: str


@dataclasses.dataclass
class Answer:
    code: int
    message: str
    retry_delay_ns: int
    c: bytes
    queue_ns: int
    kernel_ns: int
    total_ns: int
    launch_rows: int
    launch_requests: int
    done_word: int


class Lane:
    def __init__(self, path, operand_bytes=1 << 20, slots=8, token=b""):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(60)
        self.socket.connect(path)
        self.sequence = 41
        self.socket.send(
            HEADER.pack(MAGIC, HELLO, VERSION, self.sequence, 0) +
            struct.pack("<QII", operand_bytes, slots, len(token)) + token)
        packet, descriptors, _, _ = socket.recv_fds(self.socket, 8192, 3)
        fields = self._answer(packet, ACCEPT, "<QQQQQQII")
        (self.segment_bytes, self.requests, self.completions, self.done_words,
         self.operands, self.operand_bytes, self.slots, _) = fields
        segment, self.doorbell, wake = descriptors
        self.memory = mmap.mmap(segment, self.segment_bytes)
        os.close(segment)
        self.wake = socket.socket(fileno=wake)
        self.published = 0
        self.cookies = [0] * self.slots

    def close(self):
        """Hangs up."""
        self.socket.close()
        self.wake.close()
        os.close(self.doorbell)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # Socket ---------------------------------------------------------------------

    def _answer(self, packet, kind, form):
        """The fields of an answer behind its header; the last counts its text."""
        magic, got, version, sequence, code = HEADER.unpack_from(packet)
        assert (magic, got, version) == (MAGIC, kind, VERSION), packet
        assert sequence == self.sequence, packet
        fields = struct.unpack_from(form, packet, HEADER.size)
        text = packet[HEADER.size + struct.calcsize(form):].decode()
        if code:
            raise Refused(code, text)
        return fields

    def _ask(self, kind, body, answer, form):
        self.sequence += 1
        self.socket.send(
            HEADER.pack(MAGIC, kind, VERSION, self.sequence, 0) + body)
        return self._answer(self.socket.recv(8192), answer, form)

    def open(self, name, kind=WEIGHTS, client_id=""):
        body = struct.pack("<IIII", kind, len(name), len(client_id), 0)
        fields = self._ask(OPEN, body + name.encode() + client_id.encode(),
                           OPENED, "<IIQQQQ64sII")
        return Opened(*fields[:6], fields[6].decode())

    def close_handle(self, handle):
        self._ask(CLOSE, struct.pack("<II", handle, 0), CLOSED, "<II")

    # Memory ---------------------------------------------------------------------

    def word(self, offset, form="<I"):
        return struct.unpack_from(form, self.memory, offset)[0]

    def set_word(self, offset, value, form="I"):
        """Stores an aligned word at once, before any load that follows."""
        size = struct.calcsize(form)
        with memoryview(self.memory) as whole, \
                whole[offset:offset + size] as part, part.cast(form) as words:
            words[0] = value
        with threading.Lock():  # a sequentially consistent operation
            pass

    def completion_at(self, slot):
        return self.completions + COMPLETION_BYTES * slot

    def publish(self, opened, m, a, c_bytes, slot=0, a_offset=0, c_offset=None,
                timeout_ns=0, types=(0, 0, 0, 0), priority=0):
        """Sends a request in a free slot; returns where its C will be."""
        if c_offset is None:
            c_offset = -(-(a_offset + len(a)) // ALIGNMENT) * ALIGNMENT
        begin = self.operands + a_offset
        self.memory[begin:begin + len(a)] = a
        self.cookies[slot] += 1
        REQUEST.pack_into(
            self.memory,
            self.requests + REQUEST_BYTES * (self.published % self.slots),
            opened.handle, m, slot, self.cookies[slot], a_offset, len(a),
            c_offset, c_bytes, timeout_ns, *types, priority)
        self.published += 1
        self.set_word(PUBLISHED, self.published, "Q")
        if self.word(SERVER_SLEEPS):
            os.write(self.doorbell, struct.pack("=Q", 1))
        return c_offset

    def is_done(self, slot):
        return self.word(self.completion_at(slot)) == self.cookies[slot]

    def sleep_until_done(self, slot):
        """Waits on the wake socket, which is for any completion."""
        while True:
            self.set_word(CLIENT_SLEEPS, 1)
            if self.is_done(slot):
                self.set_word(CLIENT_SLEEPS, 0)
                return
            ready, _, _ = select.select([self.wake, self.socket], [], [], 60)
            self.set_word(CLIENT_SLEEPS, 0)
            assert ready, "no wake in 60 s"
            if self.socket in ready:
                raise ConnectionError("the lane has ended")
            while True:
                try:
                    assert len(self.wake.recv(16)) == 8
                except BlockingIOError:
                    break

    def spin_until_done(self, slot):
        while not self.is_done(slot):
            pass

    def answer(self, slot, c_offset, c_bytes, position):
        (_, _, code, message_bytes, queue, _, kernel, _, total, rows, requests,
         retry, _, message) = COMPLETION.unpack_from(
             self.memory, self.completion_at(slot))
        begin = self.operands + c_offset
        return Answer(
            code, message[:message_bytes].decode(), retry,
            bytes(self.memory[begin:begin + c_bytes]), queue, kernel, total,
            rows, requests,
            self.word(self.done_words + 8 * (position % self.slots), "<Q"))

    def call(self, opened, m, a, c_bytes, slot=0, wait=None, **fields):
        """One request from its beginning to its end."""
        c_offset = self.publish(opened, m, a, c_bytes, slot, **fields)
        (wait or self.sleep_until_done)(slot)
        return self.answer(slot, c_offset, c_bytes, self.published - 1)
