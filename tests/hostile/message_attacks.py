# SPDX-License-Identifier: Apache-2.0
"""Messages that are larger inside than outside, never end, or are no
messages."""

import threading
import time
import zlib

import grpc
from qgemm.v1 import qgemm_pb2 as pb

import h2_wire
import layers
from scene import Surprise, code_of, expect, megabytes

GEMM = layers.PACKAGE + "Gemm"
MIB = 1 << 20
# Ends of tags: field 99 as a string of no bytes, a group, field 11 as a varint,
# fixed32, and the operand's own field, empty.
UNKNOWN_FIELDS = {
    "empty strings": b"\x9a\x06\x00",
    "groups": b"\x93\x06\x94\x06",
    "varints": b"\x58\x01",
    "fixed32": b"\x5dabcd",
    "operands": b"\x7a\x00",
    "names": b"\x0a\x01a",
}


def bomb(inflated_bytes, wbits):
    """Zeros, deflated: one block of a MiB that stands for itself, repeated.
    The checksum at the end is wrong; nobody gets there."""
    deflater = zlib.compressobj(9, zlib.DEFLATED, wbits)
    first = deflater.compress(bytes(MIB)) + deflater.flush(zlib.Z_FULL_FLUSH)
    block = deflater.compress(bytes(MIB)) + deflater.flush(zlib.Z_FULL_FLUSH)
    return (first + block * (inflated_bytes // MIB - 1) +
            deflater.flush(zlib.Z_FINISH))


def throw_bomb(scene, encoding, wbits, method, count):
    body = h2_wire.message(bomb(3000 * MIB, wbits), compressed=True)
    with scene.greet(values={4: h2_wire.LARGE_WINDOW}) as connection:
        streams = []
        for _ in range(count):
            stream = connection.open(method,
                                     extra=[("grpc-encoding", encoding)])
            connection.send_data(stream, body, end=True)
            streams.append(stream)
        connection.wait_for_streams(count, 30)
        return (f"{count} x {megabytes(len(body))} on the wire, "
                f"{len(connection.ended_streams)} refused")


def gzip_bomb(scene):
    """Three gigabytes in three megabytes."""
    zeros = pb.GemmRequest(weights="none", m=1, a_type=1, a=bytes(4096))
    with layers.channel_to(scene.target) as channel:
        code = code_of(lambda: layers.stub_of(channel).Gemm(
            zeros, timeout=30, compression=grpc.Compression.Gzip))
    expect(code == "UNIMPLEMENTED", f"a compressed message ended with {code}")
    return throw_bomb(scene, "gzip", 31, GEMM, 1)


def deflate_bombs(scene):
    """The other algorithm, four at a time."""
    return throw_bomb(scene, "deflate", 15, GEMM, 4)


def gzip_bombs_in_streams(scene):
    """The same in the methods that take streams of messages."""
    return "; ".join(throw_bomb(scene, "gzip", 31, layers.PACKAGE + method, 2)
                     for method in ("GemmStream", "LoadWeights"))


def unknown_fields(scene):
    """Messages of 60 MB without one field that the server knows."""
    refused = {}
    for name, field in UNKNOWN_FIELDS.items():
        body = field * (scene.count(60 * MIB) // len(field))
        with layers.channel_to(scene.target) as channel:
            code = code_of(lambda: scene.raw_call(GEMM, channel)(
                body, timeout=60))
        expect(code != "OK", f"60 MB of {name} were answered")
        refused[name] = code
    return str(refused)


def unknown_fields_in_queries(scene):
    """The same to the methods whose requests are a few bytes."""
    body = UNKNOWN_FIELDS["empty strings"] * (scene.count(60 * MIB) // 3)
    codes = {}
    for method in ("ListWeights", "GetServerInfo", "UnloadWeights",
                   "GetWeights", "QueryUpload", "FindMissingWeights",
                   "PinWeights", "TouchWeights"):
        with layers.channel_to(scene.target) as channel:
            call = scene.raw_call(layers.PACKAGE + method, channel)
            codes[method] = code_of(lambda: call(body, timeout=60))
    return str(codes)


def unknown_fields_in_streams(scene):
    """The same as messages of an upload and of a GemmStream, and to health."""
    body = UNKNOWN_FIELDS["empty strings"] * (scene.count(60 * MIB) // 3)
    codes = {}
    for method in (layers.PACKAGE + "LoadWeights",
                   layers.PACKAGE + "GemmStream",
                   "/grpc.health.v1.Health/Check",
                   "/grpc.health.v1.Health/Watch"):
        with layers.channel_to(scene.target) as channel:
            call = channel.stream_stream(method, lambda data: data,
                                         lambda data: data)
            codes[method.rsplit("/", 1)[1]] = code_of(
                lambda: next(call(iter([body]), timeout=60), None))
    return str(codes)


def nested_groups(scene):
    """Groups in groups in groups, deeper than any stack."""
    body = b"\x93\x06" * (10 * MIB // 2)
    with layers.channel_to(scene.target) as channel:
        codes = {method: code_of(lambda: scene.raw_call(
            layers.PACKAGE + method, channel)(body, timeout=60))
            for method in ("Gemm", "GetWeights")}
    expect("OK" not in codes.values(), f"nested groups: {codes}")
    return str(codes)


def send_unfinished(connection, count, total):
    """Messages of 64 MiB whose last byte never comes."""
    body = bytes(64 * MIB - 100)
    head = h2_wire.message(body)[:5]
    for _ in range(count):
        stream = connection.open(GEMM)
        connection.send_data(stream, head)
        sent = connection.send_data(stream, memoryview(body)[:-1])
        total.append(sent)
        if sent < len(body) - 1:
            return  # held back, or refused


def unfinished_messages(scene):
    """One connection, sixteen messages of 64 MiB without their last byte."""
    total = []
    with scene.greet(values={4: h2_wire.LARGE_WINDOW}) as connection:
        try:
            send_unfinished(connection, scene.count(16), total)
        except OSError:
            total.append(0)
        time.sleep(1)  # the attack: they stay unfinished
        ended = len(connection.ended_streams)
    return f"{megabytes(sum(total))} taken, {ended} calls refused"


def unfinished_messages_of_many(scene):
    """The same over eight connections at once."""
    total = []

    def attack():
        try:
            with scene.greet(values={4: h2_wire.LARGE_WINDOW}) as connection:
                send_unfinished(connection, scene.count(4), total)
                time.sleep(1)
        except OSError:
            total.append(0)

    threads = [threading.Thread(target=attack) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return f"{megabytes(sum(total))} taken"


def trickled_messages(scene):
    """A hundred calls that send a byte now and then."""
    with scene.greet() as connection:
        streams = [connection.open(GEMM) for _ in range(100)]
        head = h2_wire.message(bytes(MIB))[:5]
        for stream in streams:
            connection.send_data(stream, head)
        for _ in range(scene.count(50)):
            for stream in streams:
                connection.send_data(stream, b"\0")
            time.sleep(0.1)
        return f"{len(connection.ended_streams)} of 100 ended by the server"


def length_prefixes(scene):
    """Lengths that are not those of what follows: 2^32 - 1, zero, too short;
    reserved flags."""
    heads = [b"\0\xff\xff\xff\xff", b"\0\0\0\0\0", b"\0\0\0\0\x05ab",
             b"\x02\0\0\0\x01a", b"\xff\0\0\0\0", b"\x01\0\0\0\x01a", b"\0"]
    with scene.greet() as connection:
        for head in heads:
            for method in ("Gemm", "LoadWeights", "GemmStream"):
                stream = connection.open(layers.PACKAGE + method)
                connection.send(h2_wire.frame(
                    h2_wire.DATA, h2_wire.END_STREAM, stream, head))
        connection.wait_for_streams(3 * len(heads), 20)
        ended = len(connection.ended_streams)
        if not connection.ended and ended < 3 * len(heads):
            raise Surprise(f"{ended} of {3 * len(heads)} calls ended")
        return f"{ended} calls ended"


def mutated(data, random):
    """A copy with a few bytes changed, dropped or doubled."""
    data = bytearray(data)
    for _ in range(random.randint(1, 6)):
        at = random.randrange(len(data) + 1)
        kind = random.randrange(4)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << random.randrange(8)
        elif kind == 1:
            del data[at:at + random.randint(1, 8)]
        elif kind == 2:
            data[at:at] = random.choice(
                [b"\xff" * 9 + b"\x01", b"\0", b"\x7a\xff\x7f", b"\x0b\x0c",
                 random.randbytes(4)])
        else:
            data[at:at] = data[at:at + random.randint(1, 32)]
    return bytes(data)


def mutated_messages(scene):
    """Gemms, uploads and streams with a few bits wrong, thousands of them."""
    gemm = pb.GemmRequest(weights="bystander/layer", m=3, a_type=2,
                          a=bytes(2 * 3 * 96))
    opened = pb.GemmStreamRequest(request_id=1, a=gemm.a, open=(
        pb.GemmStreamOpen(gemm=pb.GemmRequest(
            weights="bystander/layer", m=3, a_type=2))))
    upload = [message.SerializeToString() for message in
              layers.wide_messages("mutated")][:2]
    upload.append(next(layers.tiny_messages(1)).SerializeToString())
    counts = {}
    channel = scene.channel()
    for method, kind, seeds in (
            ("Gemm", channel.unary_unary, [gemm.SerializeToString()]),
            ("GemmStream", channel.stream_stream,
             [opened.SerializeToString()]),
            ("LoadWeights", channel.stream_unary, upload)):
        call = kind(layers.PACKAGE + method, lambda data: data,
                    lambda data: data)
        for _ in range(scene.count(1000)):
            bodies = [mutated(scene.random.choice(seeds), scene.random)
                      for _ in range(scene.random.randint(1, 3))]
            code = code_of(lambda: answer_of(call, method, bodies))
            expect(code not in ("INTERNAL", "UNKNOWN", "DEADLINE_EXCEEDED"),
                   f"{method} of mutated bytes ended with {code}; "
                   f"seed {scene.seed}")
            counts[code] = counts.get(code, 0) + 1
    return str(counts)


def answer_of(call, method, bodies):
    if method == "Gemm":
        return call(bodies[0], timeout=30)
    if method == "LoadWeights":
        return call(iter(bodies), timeout=30)
    return list(call(iter(bodies), timeout=30))


def oversized_messages(scene):
    """Gigabytes that are only announced, and a message that is beyond
    --max_message_bytes by a byte and comes whole."""
    with scene.greet(values={4: h2_wire.LARGE_WINDOW}) as connection:
        for length in (2**31 - 1, 2**31, 2**32 - 1):
            stream = connection.open(GEMM)
            connection.send_data(stream,
                                 b"\0" + length.to_bytes(4, "big") + b"x")
        stream = connection.open(GEMM)
        connection.send_data(
            stream, h2_wire.message(bytes(64 * MIB + 1)), end=True)
        refused = connection.wait_for(
            lambda: connection.ended or stream in connection.ended_streams, 20)
        expect(refused, "a message beyond the limit has no answer")
        return f"{len(connection.ended_streams)} of 4 refused"
