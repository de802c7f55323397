# SPDX-License-Identifier: Apache-2.0
"""Connections by the thousand, streams that hold what they get, and floods of
small frames."""

import contextlib
import resource
import struct
import time

from qgemm.v1 import qgemm_pb2 as pb

import h2_wire
import layers
from h2_wire import (CANCEL, CONTINUATION, DATA, END_HEADERS, END_STREAM,
                     GOAWAY, HEADERS, PING, PRIORITY, PUSH_PROMISE, RST_STREAM,
                     SETTINGS, WINDOW_UPDATE, frame)
from scene import expect, megabytes, send_until_refused

GEMM = layers.PACKAGE + "Gemm"
REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
WATCH = "/grpc.health.v1.Health/Watch"
MANY_STREAMS = {3: 1 << 20, 4: 1 << 20}


def small_gemm():
    return pb.GemmRequest(weights="bystander/layer", m=3, a_type=2,
                          a=bytes(2 * 3 * 96)).SerializeToString()


def open_streams(connection, path, count, patience_s=2):
    """Opens streams that say nothing; how many the server left open."""
    try:
        for _ in range(count):
            connection.open(path)
    except OSError:
        pass
    connection.wait_for_streams(count, patience_s)
    return count - len(connection.ended_streams)


def reflection_streams(scene):
    """A thousand streams of reflection on each of four connections."""
    with contextlib.ExitStack() as stack:
        held = []
        for _ in range(4):
            connection = stack.enter_context(scene.greet(values=MANY_STREAMS))
            held.append(open_streams(connection, REFLECTION,
                                     scene.count(1020)))
    return f"streams left open on each connection: {held}"


def reflection_descriptors(scene):
    """A stream each for as many files as the server may have."""
    with scene.greet(values=MANY_STREAMS) as connection:
        held = open_streams(connection, REFLECTION, 1020)
    return f"{held} of 1020 streams left open"


def watches(scene):
    """The same with health's Watch, each answered once."""
    body = h2_wire.message(b"")
    with scene.greet(values=MANY_STREAMS) as connection:
        try:
            for _ in range(scene.count(2000)):
                stream = connection.open(WATCH)
                connection.send(frame(DATA, END_STREAM, stream, body))
        except OSError:
            pass
        connection.wait_for_streams(2000, 3)
        return (f"{len(connection.data_bytes)} watched, "
                f"{len(connection.ended_streams)} ended")


def calls_of_headers(scene):
    """Calls that are only their headers, far beyond the limit of a connection,
    which binds those alone that acknowledge it."""
    taken = []
    for method in (layers.PACKAGE + "Gemm", WATCH):
        with scene.connect(acknowledges=False) as connection:
            headers = h2_wire.request_headers(method)
            first, sent = 1, 0
            try:
                while sent < scene.count(200_000) and not connection.ended:
                    connection.send(b"".join(
                        frame(HEADERS, END_HEADERS, first + 2 * i, headers)
                        for i in range(200)))
                    first, sent = first + 400, sent + 200
            except OSError:
                pass
            taken.append(sent)
    return f"{taken} calls before the connection ended"


def crumbs_of_data(scene):
    """A few bytes of a message beside 8 KB that no window counts, over and
    over: each read pins a buffer."""
    crumbs = (frame(DATA, 0, 1, bytes(24)) +
              frame(PRIORITY, 0, 3, b"\0\0\0\1\x10") * 580) * 8
    sent = 0
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(scene.greet()) for _ in range(16)]
        for connection in connections:
            stream = connection.open(layers.PACKAGE + "Gemm")
            connection.send(frame(DATA, 0, stream,
                                  h2_wire.message(bytes(60 << 20))[:5]))
        for _ in range(scene.count(400)):
            for connection in connections:
                if not connection.ended:
                    sent += send_until_refused(connection, crumbs, len(crumbs))
    return f"{sent / 1e6:.0f} MB sent"


def idle_connections(scene):
    """As many connections as one process may have, each after its preface."""
    count = scene.count(4000)
    raise_descriptor_limit(count + 200)
    sockets = []
    refused = 0
    for _ in range(count):
        try:
            connected = h2_wire.connect(scene.tcp, 5)
            sockets.append(connected)
            connected.sendall(h2_wire.PREFACE + h2_wire.settings({}))
        except OSError:
            refused += 1
    time.sleep(2)  # the attack: they stay
    open_ones = sum(is_open(connected) for connected in sockets)
    for connected in sockets:
        connected.close()
    return f"{open_ones} of {count} stayed open, {refused} refused at once"


def raise_descriptor_limit(wanted):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))


def is_open(connected):
    """False if the peer has closed; reads what it had sent."""
    connected.setblocking(False)
    try:
        while True:
            if not connected.recv(1 << 16):
                return False
    except BlockingIOError:
        return True
    except OSError:
        return False


def silent_connections(scene):
    """Connections over both listeners that never say a word."""
    sockets = []
    for address in (scene.tcp, scene.unix):
        for _ in range(scene.count(300)):
            try:
                sockets.append(h2_wire.connect(address, 5))
            except OSError:
                break
    time.sleep(2)  # the attack: they stay
    open_ones = sum(is_open(connected) for connected in sockets)
    for connected in sockets:
        connected.close()
    return f"{open_ones} of {len(sockets)} stayed open"


def slow_prefaces(scene):
    """Sixty connections that send their preface a byte at a time, never
    whole."""
    sockets = [h2_wire.connect(scene.tcp, 5) for _ in range(60)]
    for at in range(min(scene.count(20), len(h2_wire.PREFACE) - 1)):
        for connected in sockets:
            with contextlib.suppress(OSError):
                connected.sendall(h2_wire.PREFACE[at:at + 1])
        time.sleep(0.1)
    for connected in sockets:
        connected.close()
    return "60 half prefaces"


def connection_churn(scene):
    """Connections that end as soon as they begin: FIN, RST, or after a
    request whose answer nobody waits for."""
    refused = 0
    for number in range(scene.count(3000)):
        address = scene.unix if number % 4 == 3 else scene.tcp
        try:
            connected = h2_wire.connect(address, 5)
        except OSError:
            refused += 1
            continue
        with contextlib.suppress(OSError):
            if number % 3 == 1:
                connected.sendall(
                    h2_wire.PREFACE + h2_wire.settings({}) +
                    frame(HEADERS, END_HEADERS, 1,
                          h2_wire.request_headers(GEMM)) +
                    frame(DATA, END_STREAM, 1,
                          h2_wire.message(small_gemm())))
            if number % 3 == 2:
                connected.setsockopt(
                    h2_wire.socket.SOL_SOCKET, h2_wire.socket.SO_LINGER,
                    struct.pack("ii", 1, 0))
        connected.close()
    return f"{refused} of {scene.count(3000)} refused"


def descriptor_flood(scene):
    """More connections than the server may have files; all leave again."""
    sockets = []
    with contextlib.suppress(OSError):
        for _ in range(200):
            connected = h2_wire.connect(scene.tcp, 2)
            sockets.append(connected)
            connected.sendall(h2_wire.PREFACE + h2_wire.settings({}))
    time.sleep(1)  # the attack: they stay
    for connected in sockets:
        connected.close()
    return f"{len(sockets)} connections at a limit of 128 files"


def rapid_resets(scene):
    """Streams that are reset as soon as they have begun: a Gemm whole, its
    header alone, an upload of which the header came."""
    upload = next(layers.dense_messages(
        "reset", layers.np.zeros((64, 64)))).SerializeToString()
    outcomes = []
    for path, body, flags in (
            (GEMM, small_gemm(), END_STREAM), (GEMM, None, 0),
            (layers.PACKAGE + "LoadWeights", upload, 0)):
        outcomes.append(reset_streams(scene, path, body, flags))
    return "; ".join(outcomes)


def reset_streams(scene, path, body, flags):
    count = scene.count(20000)
    headers = h2_wire.request_headers(path)
    with scene.greet(values=MANY_STREAMS) as connection:
        try:
            for stream in range(1, 2 * count, 2):
                block = frame(HEADERS, END_HEADERS, stream, headers)
                if body is not None:
                    block += frame(DATA, flags, stream, h2_wire.message(body))
                connection.send(block + frame(RST_STREAM, 0, stream,
                                              struct.pack(">I", CANCEL)))
                if connection.ended:
                    return f"closed at {stream // 2}"
        except OSError:
            return f"closed at {stream // 2}"
        time.sleep(0.5)
    return f"{count} resets"


def flood(scene, block, total_bytes, opened):
    """Copies of a block of frames on a connection, one stream open."""
    with scene.greet(values=MANY_STREAMS, timeout=5) as connection:
        connection.open(opened)
        sent = send_until_refused(connection, block,
                                  scene.count(total_bytes))
        time.sleep(0.5)
        return (f"{megabytes(sent)} sent, {connection.received_bytes} bytes "
                f"answered, {'closed' if connection.ended else 'open'}")


def control_floods(scene):
    """PING, SETTINGS, PRIORITY, WINDOW_UPDATE, empty DATA and empty
    messages."""
    floods = {
        "PING": frame(PING, 0, 0, b"12345678") * 500,
        "SETTINGS": h2_wire.settings({4: 65535}) * 500,
        "PRIORITY": frame(PRIORITY, 0, 3, b"\0\0\0\1\x10") * 1000,
        "WINDOW_UPDATE": frame(WINDOW_UPDATE, 0, 1,
                               struct.pack(">I", 1)) * 1000,
        "DATA": frame(DATA, 0, 1, b"") * 1000,
    }
    return "; ".join(
        f"{name}: {flood(scene, block, 4 << 20, opened=GEMM)}"
        for name, block in floods.items())


def empty_messages(scene):
    """Half a million messages of no bytes on a GemmStream, and on an
    upload."""
    block = frame(DATA, 0, 1, h2_wire.message(b"") * 1000)
    return "; ".join(flood(scene, block, 2_500_000,
                           opened=layers.PACKAGE + method)
                     for method in ("GemmStream", "LoadWeights"))


def unread_control_frames(scene):
    """PINGs and SETTINGS whose acknowledgements nobody reads."""
    sent = []
    for block in (frame(PING, 0, 0, b"12345678") * 1000,
                  h2_wire.settings({4: 65535}) * 1000):
        with scene.connect(reads=False, timeout=3) as connection:
            sent.append(send_until_refused(connection, block,
                                           scene.count(8 << 20)))
    return " and ".join(map(megabytes, sent))


def wrong_frames():
    """One violation of RFC 9113 each; a server ends the stream or the
    connection, and nothing else."""
    headers = h2_wire.request_headers(GEMM)
    opened = frame(HEADERS, END_HEADERS, 1, headers)
    return {
        "window overflow": opened + frame(
            WINDOW_UPDATE, 0, 1, struct.pack(">I", 0x7FFFFFFF)) * 2,
        "connection window overflow": frame(
            WINDOW_UPDATE, 0, 0, struct.pack(">I", 0x7FFFFFFF)) * 2,
        "window increment of 0": opened + frame(
            WINDOW_UPDATE, 0, 1, bytes(4)),
        "window of 2^32 - 1": h2_wire.settings({4: 0xFFFFFFFF}),
        "frame size of 0": h2_wire.settings({5: 0}),
        "table of 4 GiB": h2_wire.settings({1: 0xFFFFFFFF}) + opened,
        "half a setting": frame(SETTINGS, 0, 0, b"\0\1\0"),
        "PING of 7": frame(PING, 0, 0, b"1234567"),
        "an even stream": frame(HEADERS, END_HEADERS, 2, headers),
        "streams backwards": frame(HEADERS, END_HEADERS, 9, headers) +
                             frame(HEADERS, END_HEADERS, 3, headers),
        "DATA before HEADERS": frame(DATA, END_STREAM, 1, b"abcdef"),
        "CONTINUATION of nothing": frame(CONTINUATION, END_HEADERS, 1,
                                         headers),
        "PING inside a header block": frame(HEADERS, 0, 1, headers) +
                                      frame(PING, 0, 0, bytes(8)),
        "PUSH_PROMISE": frame(PUSH_PROMISE, END_HEADERS, 1,
                              struct.pack(">I", 2) + headers),
        "padding beyond the frame": frame(DATA, 0x8, 1, b"\xff"),
        "a frame of 16 MiB": b"\xff\xff\xff" + opened[3:],
        "data beyond the window": opened + frame(
            DATA, 0, 1, bytes(16384)) * 4096,
        "HEADERS twice": opened + opened,
        "GOAWAY again and again": frame(GOAWAY, 0, 0, bytes(8)) * 1000,
        "unknown frames": frame(0xEE, 0xFF, 1, bytes(100)) * 1000,
        "reset of nothing": frame(RST_STREAM, 0, 99, bytes(4)) * 1000,
        "no preface": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64),
    }


def broken_frames(scene):
    """Each violation on a connection of its own, over both listeners."""
    ended = 0
    for name, data in wrong_frames().items():
        for address in (scene.tcp, scene.unix):
            connected = h2_wire.connect(address, 10)
            prefix = (b"" if name in ("no preface", "TLS") else
                      h2_wire.PREFACE + h2_wire.settings({}))
            with contextlib.suppress(OSError):
                connected.sendall(prefix + data)
                connected.settimeout(0.2)
                while connected.recv(1 << 16):
                    pass
                ended += 1
            connected.close()
    return f"{ended} of {2 * len(wrong_frames())} connections were ended"


def mutated_http2(scene):
    """Whole conversations with bits wrong anywhere, hundreds of them."""
    conversation = (
        h2_wire.PREFACE + h2_wire.settings({3: 100, 4: 1 << 20}) +
        frame(HEADERS, END_HEADERS, 1, h2_wire.request_headers(GEMM)) +
        frame(DATA, END_STREAM, 1, h2_wire.message(small_gemm())) +
        frame(HEADERS, 0, 3, h2_wire.request_headers(
            layers.PACKAGE + "GemmStream")[:40]) +
        frame(CONTINUATION, END_HEADERS, 3, h2_wire.request_headers(
            layers.PACKAGE + "GemmStream")[40:]) +
        frame(DATA, 0, 3, h2_wire.message(b"\x08\x01")) +
        frame(PING, 0, 0, bytes(8)) + frame(RST_STREAM, 0, 3, bytes(4)))
    answered = 0
    for _ in range(scene.count(1500)):
        data = bytearray(conversation)
        for _ in range(scene.random.randint(1, 12)):
            at = scene.random.randrange(24, len(data))
            data[at] = scene.random.randrange(256)
        with contextlib.suppress(OSError):
            connected = h2_wire.connect(
                scene.random.choice([scene.tcp, scene.unix]), 5)
            with connected:
                connected.sendall(data)
                connected.settimeout(0.02)
                answered += bool(connected.recv(1 << 16))
    expect(answered, f"no conversation was answered; seed {scene.seed}")
    return f"{answered} of {scene.count(1500)} answered"
