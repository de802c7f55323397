# SPDX-License-Identifier: Apache-2.0
"""Products that are asked for and not fetched, queues that one client fills,
and operands that come in part."""

import queue
import threading
import time
import urllib.request

import numpy as np
from qgemm.v1 import qgemm_pb2 as pb

import h2_wire
import layers
from h2_wire import DATA, END_HEADERS, HEADERS, frame
from scene import code_of, codes_of, expect

GEMM = layers.PACKAGE + "Gemm"
STREAM = layers.PACKAGE + "GemmStream"
NO_WINDOW = {4: 0}
BIG = 4096
DEEP_K = 32768
MAX_NEW_SERIES = 1000


def big_layer():
    return layers.dense_messages("hog/big", np.zeros((BIG, BIG)))


def big_request(**fields):
    return pb.GemmRequest(weights="hog/big", m=64, a_type=pb.FLOAT_TYPE_FP16,
                          a=bytes(64 * BIG * 2), **fields)


def hog(scene, count, connections, fields):
    """Sends so many big requests at once over so many connections, waits for a
    quarter of a minute, and leaves."""
    stubs = [scene.stub(over_unix=number % 4 == 3)
             for number in range(connections)]
    futures = [stubs[number % connections].Gemm.future(
        big_request(**fields(number)), timeout=60) for number in range(count)]
    counts = codes_of(futures, timeout=15)
    return f"{count} requests: {counts}"


def starvation(scene):
    """900 requests of 64 rows for a layer of the attacker's own."""
    with scene.layer(big_layer):
        return hog(scene, scene.count(900), 1, lambda number: {})


def invented_clients(scene):
    """The same under 900 invented client ids, over 30 connections."""
    with scene.layer(big_layer):
        return hog(scene, scene.count(900), 30,
                   lambda number: {"client_id": f"invented-{number}"})


def borrowed_client(scene):
    """The same under somebody else's client id, with high priority."""
    with scene.layer(big_layer):
        return hog(scene, scene.count(600), 4, lambda number: {
            "client_id": "victim", "priority": pb.PRIORITY_HIGH})


def urgent_requests(scene):
    """Requests whose deadlines are always about to pass, so that they would
    go first."""
    stub = scene.stub()
    stop = time.monotonic() + 10 * scene.scale
    counts = {}
    with scene.layer(big_layer):
        while time.monotonic() < stop:
            futures = [stub.Gemm.future(
                big_request(), timeout=scene.random.uniform(0.003, 0.3))
                for _ in range(40)]
            for code, count in codes_of(futures, 5).items():
                counts[code] = counts.get(code, 0) + count
    return str(counts)


def thousands_of_clients(scene):
    """As many client ids as requests; the metrics page stays short."""
    stub = scene.stub()
    before = series_on_the_page(scene)
    futures = [stub.Gemm.future(pb.GemmRequest(
        weights="bystander/layer", m=3, a_type=2, a=bytes(2 * 3 * 96),
        client_id=f"client-{number}"), timeout=60)
        for number in range(scene.count(3000))]
    counts = codes_of(futures, 60)
    grown = series_on_the_page(scene) - before
    expect(grown < MAX_NEW_SERIES, f"{grown} new series of metrics")
    return f"{counts}; {grown} new series of metrics"


def series_on_the_page(scene):
    host, port = scene.metrics
    with urllib.request.urlopen(f"http://{host}:{port}/metrics",
                                timeout=20) as page:
        return page.read().count(b"\n")


def unread_answers(scene):
    """64 requests of 134 bytes over a window of 0: 60 MiB each, not
    fetched."""
    with scene.layer(lambda: layers.wide_messages("hog/wide")):
        body = layers.wide_request(weights="hog/wide").SerializeToString()
        with scene.connect(values=NO_WINDOW) as connection:
            for _ in range(scene.count(64)):
                connection.call(GEMM, body)
            time.sleep(12 * scene.scale)  # the attack: none is read
            refused = len(connection.ended_streams)
    return f"{refused} of {scene.count(64)} refused"


def send_unread_stream(connection, requests, number):
    stream = 2 * number + 1
    connection.send(frame(HEADERS, END_HEADERS, stream,
                          h2_wire.request_headers(STREAM)))
    gemm = layers.wide_request(weights="hog/wide")
    gemm.a, rows = b"", gemm.a
    for request_id in range(requests):
        connection.send(frame(DATA, 0, stream, h2_wire.message(
            pb.GemmStreamRequest(
                request_id=request_id, a=rows,
                open=pb.GemmStreamOpen(gemm=gemm)).SerializeToString())))


def unread_streams(scene):
    """Ten GemmStreams on a connection without a window, eight requests
    each."""
    with scene.layer(lambda: layers.wide_messages("hog/wide")):
        with scene.connect(values=NO_WINDOW) as connection:
            for number in range(10):
                send_unread_stream(connection, 8, number)
            time.sleep(12 * scene.scale)  # the attack: none is read
            ended = len(connection.ended_streams)
    return f"{ended} of 10 streams ended"


def never_reading(scene):
    """A hundred streams of three hundred small requests, not a byte read."""
    gemm = pb.GemmRequest(weights="bystander/layer", m=3, a_type=2)
    sent = 0
    with scene.connect(values={3: 1 << 20}, reads=False,
                       timeout=3) as connection:
        try:
            for number in range(scene.count(100)):
                stream = 2 * number + 1
                block = frame(HEADERS, END_HEADERS, stream,
                              h2_wire.request_headers(STREAM))
                for request_id in range(300):
                    block += frame(DATA, 0, stream, h2_wire.message(
                        pb.GemmStreamRequest(
                            request_id=request_id, a=bytes(2 * 3 * 96),
                            open=pb.GemmStreamOpen(gemm=gemm))
                        .SerializeToString()))
                connection.send(block)
                sent += 1
        except OSError:
            pass
        time.sleep(2)  # the attack: none is read
    return f"{sent} streams sent before the server let the client wait"


class Feed:
    """The requests of a stream, given one by one."""

    def __init__(self):
        self._queue = queue.Queue()

    def __iter__(self):
        return self

    def __next__(self):
        message = self._queue.get()
        if message is None:
            raise StopIteration
        return message

    def put(self, message):
        self._queue.put(message)

    def end(self):
        self._queue.put(None)


def deep_layer():
    return layers.dense_messages("hog/deep", np.zeros((8, DEEP_K)))


def partial_operand(rows):
    """The first 4 bytes of an operand of so many rows."""
    return pb.GemmStreamRequest(
        request_id=1, a=b"1234", open=pb.GemmStreamOpen(
            a_bytes=rows * DEEP_K * 2, gemm=pb.GemmRequest(
                weights="hog/deep", m=rows, a_type=pb.FLOAT_TYPE_FP16)))


def fragmented_product(stub):
    """A good client's product whose operand comes in two fragments."""
    layer = layers.CheckedLayer("bystander/layer", 64, 96, 3, 1)
    gemm = layer.request()
    rows, gemm.a = gemm.a, b""
    half = len(rows) // 2
    messages = [
        pb.GemmStreamRequest(request_id=1, a=rows[:half],
                             open=pb.GemmStreamOpen(gemm=gemm,
                                                    a_bytes=len(rows))),
        pb.GemmStreamRequest(request_id=1, a=rows[half:],
                             fragment=pb.GemmStreamFragment(offset=half))]
    return next(stub.GemmStream(iter(messages), timeout=60))


def partial_operands(scene):
    """One message of 50 bytes that announces a gigabyte, on one stream and on
    twenty; operands in fragments of others go on or are asked to retry."""
    outcomes = []
    with scene.layer(deep_layer):
        for count, rows in ((1, 16384 - 8), (20, 2048)):
            feeds = [Feed() for _ in range(count)]
            calls = [scene.stub().GemmStream(feed) for feed in feeds]
            for feed in feeds:
                feed.put(partial_operand(rows))
            time.sleep(1)
            outcomes.append(wait_for_fragments(scene))
            for feed, call in zip(feeds, calls):
                call.cancel()
                feed.end()
    return "; ".join(outcomes)


def wait_for_fragments(scene):
    """Retries a fragmented product as long as the server asks for it."""
    stub = scene.stub(over_unix=True)
    start = time.monotonic()
    while True:
        answer = fragmented_product(stub)
        if not answer.HasField("error"):
            waited = time.monotonic() - start
            return f"a fragmented product after {waited:.1f} s"
        expect(time.monotonic() - start < 60,
               f"fragments refused for a minute: {answer.error.message}")
        time.sleep(0.1)


def cancel_storm(scene):
    """Thousands of calls that are cancelled or late within milliseconds."""
    stub = scene.stub()
    request = layers.CheckedLayer("bystander/layer", 64, 96, 3, 1).request()
    futures = []
    for number in range(scene.count(5000)):
        future = stub.Gemm.future(
            request, timeout=scene.random.uniform(1e-4, 0.02))
        if number % 2:
            future.cancel()
        futures.append(future)
        if len(futures) > 200:
            futures.pop(0)
    return str(codes_of(futures, 20))


def streams_cut(scene):
    """Streams that are cut by a reset of their connection in the middle of
    requests."""
    gemm = pb.GemmRequest(weights="bystander/layer", m=3, a_type=2)
    body = h2_wire.message(pb.GemmStreamRequest(
        request_id=1, a=bytes(2 * 3 * 96),
        open=pb.GemmStreamOpen(gemm=gemm)).SerializeToString())
    for _ in range(scene.count(300)):
        connection = scene.connect()
        for _ in range(4):
            connection.call(GEMM, b"")
            stream = connection.open(STREAM)
            connection.send(frame(DATA, 0, stream, body + body[:20]))
        connection.abort()
    return f"{scene.count(300)} connections cut"


def absurd_sizes(scene):
    """Rows, operands and fragments at the ends of 64 bits."""
    stub = scene.stub()
    codes = {}
    for m in (0, 1 << 31, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1):
        codes[f"m={m:#x}"] = code_of(lambda: stub.Gemm(
            pb.GemmRequest(weights="bystander/layer", m=m, a_type=2, a=b"12"),
            timeout=20))
    for a_bytes in (1, (1 << 32) + 576, 1 << 63, (1 << 64) - 1):
        message = pb.GemmStreamRequest(
            request_id=(1 << 64) - 1, a=b"1", open=pb.GemmStreamOpen(
                a_bytes=a_bytes, timeout_ns=(1 << 64) - 1,
                c_fragment_bytes=(1 << 64) - 1, gemm=pb.GemmRequest(
                    weights="bystander/layer", m=3, a_type=2)))
        codes[f"a_bytes={a_bytes:#x}"] = code_of(
            lambda: list(stub.GemmStream(iter([message]), timeout=20)))
    expect(not {"INTERNAL", "UNKNOWN", "DEADLINE_EXCEEDED"} &
           set(codes.values()), str(codes))
    return str(codes)


def mixed_sizes(scene):
    """Good requests of many sizes in a hurry from many threads: an honest
    client that is merely large."""
    stop = time.monotonic() + 8 * scene.scale
    counts = {}

    def run():
        stub = scene.stub()
        while time.monotonic() < stop:
            code = code_of(lambda: stub.Gemm(big_request(), timeout=60))
            counts[code] = counts.get(code, 0) + 1

    with scene.layer(big_layer):
        threads = [threading.Thread(target=run) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return str(counts)
