# SPDX-License-Identifier: Apache-2.0
"""Headers: floods of them, and single ones that gRPC 1.51 answers by ending the
connection. A proxy in front holds these; the server alone only bounds them."""

import contextlib
import re
import time

import grpc

import h2_wire
import layers
from connection_attacks import small_gemm
from h2_wire import (CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS,
                     frame, literal)
from scene import Surprise, code_of, expect, megabytes, send_until_refused

GEMM = layers.PACKAGE + "Gemm"
MIB = 1 << 20
BLOCK_BYTES = 16000
LONG_NAME_BYTES = 40000


def flood_headers(scene, start, block, total_bytes, acknowledges):
    """A header block that begins and never ends."""
    with scene.greet(values={4: MIB}, acknowledges=acknowledges,
                     timeout=10) as connection:
        begin = h2_wire.request_headers(GEMM) + start
        connection.send(frame(HEADERS, 0, 1, begin))
        sent = send_until_refused(
            connection, frame(CONTINUATION, 0, 1, block), total_bytes)
        time.sleep(0.5)
        return (f"{megabytes(sent)} sent, "
                f"{'closed' if connection.ended else 'open'}")


def many_headers(scene, total_bytes=128 * MIB):
    """Header after header, the server's SETTINGS never acknowledged."""
    return flood_headers(scene, b"", literal("a", "b") * 3000,
                         scene.count(total_bytes), acknowledges=False)


def acknowledged_headers(scene):
    """The same after an acknowledgement."""
    return flood_headers(scene, b"", literal("a", "b") * 3000,
                         scene.count(64 * MIB), acknowledges=True)


def long_header(scene, total_bytes=64 * MIB):
    """A value of two gigabytes, announced and begun."""
    start = (b"\0" + h2_wire.hpack_integer(1, 7) + b"x" +
             h2_wire.hpack_integer(2 << 30, 7))
    return flood_headers(scene, start, b"v" * BLOCK_BYTES,
                         scene.count(total_bytes), acknowledges=False)


def padded_integer(scene, total_bytes=50_000_000):
    """A length whose continuation octets add nothing and never end."""
    return flood_headers(scene, b"\0\x01x\x7f", b"\x80" * BLOCK_BYTES,
                         scene.count(total_bytes), acknowledges=True)


def header_floods(scene):
    """All four, one after the other."""
    return "; ".join(attack(scene) for attack in (
        many_headers, acknowledged_headers, long_header, padded_integer))


def small_header_floods(scene):
    """The four at a size whose damage the server alone must bound."""
    return "; ".join((
        many_headers(scene, 8 * MIB), acknowledged_headers(scene),
        long_header(scene, 4 * MIB), padded_integer(scene, MIB)))


def trickled_headers(scene):
    """Fifty header blocks, a byte at a time."""
    connections = []
    for _ in range(50):
        connection = scene.greet()
        connections.append(connection)
        connection.send(frame(HEADERS, 0, 1, h2_wire.request_headers(GEMM)))
    piece = frame(CONTINUATION, 0, 1, literal("x-slow", "y"))
    for _ in range(scene.count(40)):
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.send(piece)
        time.sleep(0.05)
    closed = sum(connection.ended for connection in connections)
    for connection in connections:
        connection.close()
    return f"{closed} of 50 closed"


BAD_FIELDS = {
    "bad base64": literal("x-bin", "***"),
    "9 KB": literal("k", "v" * 9000),
    "60 KB": b"".join(literal(f"k{i}", "v" * 6000) for i in range(10)),
    "te: x": literal("te", "x"),
    "upper case": literal("X-A", "b"),
    "NUL in a name": literal("a\0b", "c"),
    "second :path": literal(":path", "/x"),
    "grpc-timeout: x": literal("grpc-timeout", "x"),
    "grpc-encoding": literal("grpc-encoding", "gzip"),
    "content-length": literal("content-length", "-1"),
    "connection": literal("connection", "close"),
    "index out of range": b"\xff\x80\x01",
    "table update": b"\x3f\xe1\xff\xff\xff\x07",
}


def send_bad_field(connection, field):
    headers = h2_wire.request_headers(GEMM) + field
    stream = connection.open(GEMM)  # takes an id; its call stays open
    parts = [headers[at:at + BLOCK_BYTES]
             for at in range(0, len(headers), BLOCK_BYTES)]
    stream += 2
    data = frame(HEADERS, 0 if len(parts) > 1 else END_HEADERS, stream,
                 parts[0])
    for number, part in enumerate(parts[1:], 2):
        data += frame(CONTINUATION,
                      END_HEADERS if number == len(parts) else 0, stream,
                      part)
    connection.send(data + frame(DATA, END_STREAM, stream,
                                 h2_wire.message(small_gemm())))
    connection.wait_for(
        lambda: connection.ended or stream in connection.ended_streams, 5)


def bad_fields(scene):
    """One bad header field a connection, of the attacker's own."""
    ended = []
    for name, field in BAD_FIELDS.items():
        with contextlib.suppress(OSError), scene.greet() as connection:
            send_bad_field(connection, field)
            if connection.ended or connection.gone_away:
                ended.append(name)
    return f"these ended the connection: {', '.join(ended) or 'none'}"


def codes_until_answered(call):
    """The codes of a good call that is repeated while it finds its connection
    ended, for ten seconds; the last one is its answer."""
    codes = []
    limit = time.monotonic() + 10
    while not codes or (codes[-1] == "UNAVAILABLE" and
                        time.monotonic() < limit):
        codes.append(code_of(call))
    return codes


def stock_metadata(scene):
    """Odd metadata by a stock client, which may end its connection, then a
    good call of its own."""
    odd = [("x-bin", b"\0\xff" * 100), ("k", "v" * 9000), ("a", "b" * 70000),
           ("user-agent-x", "\x7f" * 50), ("grpc-timeout-x", "1H")]
    codes = {}
    for name, value in odd:
        channel = layers.channel_to(scene.target)
        with channel:
            call = scene.raw_call(GEMM, channel)
            codes[f"{name}[{len(value)}]"] = code_of(
                lambda: call(small_gemm(), metadata=[(name, value)],
                             timeout=20))
            after = codes_until_answered(
                lambda: call(small_gemm(), timeout=20, wait_for_ready=True))
            if after[-1] != "OK":
                raise Surprise(f"{after} after metadata {name}, {codes}")
    return str(codes)


TIMEOUTS = ("0n", "0S", "1n", "99999999H", "99999999S", "-1S", "100000000S",
            "1x", "", "00000001u", "9223372036854775807n", "1.5S", " 1S", "1S ",
            "1S\0", "99999999n", "18446744073709551616H")


def timeouts(scene):
    """Deadlines at the ends of every scale, one connection each; the far ones
    are answered like others."""
    answered = {}
    for value in TIMEOUTS:
        with scene.greet() as connection:
            stream = connection.call(GEMM, small_gemm(),
                                     extra=[("grpc-timeout", value)])
            connection.wait_for(
                lambda c=connection, s=stream: c.ended or
                s in c.ended_streams, 10)
            answered[value] = connection.data_bytes.get(stream, 0) > 0
    for far in ("99999999H", "99999999S"):
        expect(answered[far], f"grpc-timeout: {far} was taken for the past")
    return f"answered: {[value for value, ok in answered.items() if ok]}"


def forged_log(scene):
    """Header values that would be lines of the log, and thousands of them."""
    evil = (b"x\nI 2026-01-01T00:00:00.000Z main.cc:112] drained\nF root "
            b"logged in \x1b[2J\x1b[31mred")
    with scene.greet() as connection:
        connection.send(
            frame(HEADERS, END_HEADERS, 1, h2_wire.request_headers(
                GEMM, extra=[("te", evil)], te=None)) +
            frame(DATA, END_STREAM, 1, h2_wire.message(b"")))
        connection.wait_for(lambda: connection.ended, 1)
    long_value = [("te", "A" * 7000)]
    with contextlib.suppress(OSError), scene.greet(
            values={3: 1 << 20}) as connection:
        for _ in range(scene.count(3000)):
            stream = connection.open(GEMM, extra=long_value, te=None)
            connection.send(frame(DATA, END_STREAM, stream,
                                  h2_wire.message(b"")))
    call = scene.raw_call(GEMM)
    bad_utf8 = [call.future(b"\x0a\x02\xff\xfe")
                for _ in range(scene.count(3000))]
    for future in bad_utf8:
        code = future.exception()
        expect(isinstance(code, grpc.RpcError), "bad UTF-8 was answered")
    return "sent"


def long_names(scene):
    """Names of 40 KB where errors repeat a name: health's services, weights."""
    lengths = []
    name = b"\x0a" + varint(LONG_NAME_BYTES) + b"\n" * LONG_NAME_BYTES
    for method in ("/grpc.health.v1.Health/Check", layers.PACKAGE +
                   "GetWeights", layers.PACKAGE + "UnloadWeights", GEMM):
        try:
            scene.raw_call(method)(name, timeout=20)
        except grpc.RpcError as error:
            lengths.append(len(error.details() or ""))
            expect(error.code() != grpc.StatusCode.RESOURCE_EXHAUSTED,
                   f"{method}: the error itself was too large")
            expect(not re.search(r"\n\n", error.details()),
                   f"{method}: the error repeats line feeds")
    expect(len(lengths) == 4 and max(lengths) < 4096,
           f"errors of {lengths} bytes")
    return f"errors of {lengths} bytes"


def varint(value):
    octets = []
    while value >= 0x80:
        octets.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(octets + [value])
