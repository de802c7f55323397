# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 by hand: frames, literal HPACK, and a connection that keeps the rules
of flow control only where it is asked to."""

import socket
import struct
import threading
import time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
(DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY,
 WINDOW_UPDATE, CONTINUATION) = range(10)
END_STREAM, ACK, END_HEADERS = 0x1, 0x1, 0x4
MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE = 3, 4
FRAME_BYTES = 16384
DEFAULT_WINDOW = 65535
LARGE_WINDOW = 1 << 30
CANCEL = 8


def frame(kind, flags=0, stream=0, payload=b""):
    return (struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) +
            struct.pack(">I", stream) + payload)


def settings(values):
    return frame(SETTINGS, payload=b"".join(
        struct.pack(">HI", key, value) for key, value in values.items()))


def settings_in(payload):
    """The pairs (key, value) of a SETTINGS frame."""
    for at in range(0, len(payload) - 5, 6):
        yield struct.unpack_from(">HI", payload, at)


def hpack_integer(value, prefix_bits, first=0):
    """An integer behind the upper bits `first` of its first octet."""
    most = (1 << prefix_bits) - 1
    if value < most:
        return bytes([first | value])
    octets = [first | most]
    value -= most
    while value >= 0x80:
        octets.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(octets + [value])


def literal(name, value):
    """A header field without indexing and without Huffman coding."""
    name = name if isinstance(name, bytes) else name.encode()
    value = value if isinstance(value, bytes) else value.encode()
    return (b"\0" + hpack_integer(len(name), 7) + name +
            hpack_integer(len(value), 7) + value)


def request_headers(path, extra=(), te="trailers"):
    """The header block of a gRPC call; `te` None leaves that field out."""
    fields = [(":method", "POST"), (":scheme", "http"), (":path", path),
              (":authority", "localhost"),
              ("content-type", "application/grpc")]
    if te is not None:
        fields.append(("te", te))
    return b"".join(literal(*field) for field in [*fields, *extra])


def message(body, compressed=False):
    """gRPC's length-prefixed message."""
    return struct.pack(">BI", compressed, len(body)) + body


def connect(address, timeout=20, source=None):
    """A socket to (host, port) or to the path of a Unix socket.

    source: its own (host, port), which sockets with another peer may have too.
    """
    if isinstance(address, str):
        connected = socket.socket(socket.AF_UNIX)
        connected.settimeout(timeout)
        connected.connect(address)
        return connected
    if source:
        connected = socket.socket()
        connected.settimeout(timeout)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        connected.bind(source)
        connected.connect(address)
    else:
        connected = socket.create_connection(address, timeout)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connected


def frames_in(buffer):
    """Takes whole frames off the front of a bytearray."""
    while len(buffer) >= 9:
        end = 9 + int.from_bytes(buffer[:3], "big")
        if len(buffer) < end:
            return
        kind, flags = buffer[3], buffer[4]
        stream = int.from_bytes(buffer[5:9], "big") & 0x7FFFFFFF
        payload = bytes(buffer[9:end])
        del buffer[:end]
        yield kind, flags, stream, payload


class Connection:
    """An HTTP/2 client. Its reader answers SETTINGS and PING, follows the
    peer's windows and counts; what the caller sends is not checked.

    acknowledges: False leaves the peer's SETTINGS unacknowledged for good.
    reads: False never reads a byte, so that answers pile up at the peer.
    wrap: makes of the socket what is sent by, such as a cipher.
    """

    def __init__(self, address, values=None, acknowledges=True, reads=True,
                 timeout=20, source=None, wrap=lambda raw: raw):
        self.socket = wrap(connect(address, timeout, source))
        self.acknowledges = acknowledges
        self.changed = threading.Condition()
        self.ended = False         # the peer has closed
        self.gone_away = False
        self.ended_streams = {}    # by id: the kind of frame that ended it
        self.received_bytes = 0
        self.data_bytes = {}       # by stream
        self._send_lock = threading.Lock()
        self._windows = {0: DEFAULT_WINDOW}
        self._initial_window = DEFAULT_WINDOW
        self._next_stream = 1
        self.send(PREFACE + settings(values or {}))
        if reads:
            threading.Thread(target=self._read, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send(self, data):
        with self._send_lock:
            self.socket.sendall(data)

    def close(self):
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.socket.close()

    def abort(self):
        """Closes by RST rather than FIN."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                               struct.pack("ii", 1, 0))
        self.socket.close()

    def open(self, path, extra=(), end=False, **fields):
        """Opens a stream and returns its id."""
        stream = self._next_stream
        self._next_stream += 2
        with self.changed:
            self._windows[stream] = self._initial_window
        self.send(frame(HEADERS, END_HEADERS | (END_STREAM if end else 0),
                        stream, request_headers(path, extra, **fields)))
        return stream

    def call(self, path, body, extra=()):
        """A call of one message, small enough for any window."""
        stream = self.open(path, extra)
        self.send(frame(DATA, END_STREAM, stream, message(body)))
        return stream

    def send_data(self, stream, data, end=False, patience_s=3):
        """Sends within the peer's windows; the number of bytes that went."""
        sent = 0
        data = memoryview(data)
        while sent < len(data):
            room = self._take_window(stream, len(data) - sent, patience_s)
            if not room:
                return sent
            last = end and sent + room == len(data)
            self.send(frame(DATA, END_STREAM if last else 0, stream,
                            bytes(data[sent:sent + room])))
            sent += room
        return sent

    def _take_window(self, stream, wanted, patience_s):
        limit = time.monotonic() + patience_s
        with self.changed:
            while True:
                if self.ended or stream in self.ended_streams:
                    return 0
                room = min(FRAME_BYTES, wanted, self._windows[0],
                           self._windows[stream])
                if room > 0:
                    self._windows[0] -= room
                    self._windows[stream] -= room
                    return room
                left = limit - time.monotonic()
                if left <= 0 or not self.changed.wait(left):
                    return 0

    def wait_for(self, condition, timeout):
        """True once condition() holds; it is tried after each frame."""
        with self.changed:
            return self.changed.wait_for(condition, timeout)

    def wait_for_streams(self, count, timeout):
        """True once so many streams have ended, or the connection has."""
        return self.wait_for(
            lambda: self.ended or len(self.ended_streams) >= count, timeout)

    def _read(self):
        buffer = bytearray()
        while True:
            try:
                data = self.socket.recv(1 << 18)
            except TimeoutError:
                continue
            except (OSError, ValueError):
                data = b""
            with self.changed:
                self.received_bytes += len(data)
                if not data:
                    self.ended = True
                else:
                    buffer += data
                    for received in frames_in(buffer):
                        self._take(*received)
                self.changed.notify_all()
            if not data:
                return

    def _take(self, kind, flags, stream, payload):
        if kind == WINDOW_UPDATE:
            self._windows[stream] = (
                self._windows.get(stream, self._initial_window) +
                int.from_bytes(payload, "big"))
        elif kind == SETTINGS and not flags & ACK:
            self._take_settings(payload)
            if self.acknowledges:
                self._reply(frame(SETTINGS, ACK))
        elif kind == PING and not flags & ACK:
            self._reply(frame(PING, ACK, 0, payload))
        elif kind == GOAWAY:
            self.gone_away = True
        elif kind == DATA:
            self.data_bytes[stream] = (self.data_bytes.get(stream, 0) +
                                       len(payload))
        if kind == RST_STREAM or (kind in (HEADERS, DATA) and
                                  flags & END_STREAM):
            self.ended_streams[stream] = kind

    def _take_settings(self, payload):
        for key, value in settings_in(payload):
            if key == INITIAL_WINDOW_SIZE:
                for stream in self._windows:
                    if stream:
                        self._windows[stream] += value - self._initial_window
                self._initial_window = value

    def _reply(self, data):
        """Best effort: a sender that holds the lock fills the socket."""
        if self._send_lock.acquire(timeout=1):
            try:
                self.socket.sendall(data)
            except OSError:
                pass
            finally:
                self._send_lock.release()
