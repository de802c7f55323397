# SPDX-License-Identifier: Apache-2.0
"""Uploads that never end, take places and budget, or fill lists; and the
names that anybody may give."""

import contextlib
import threading
import time

import grpc
from qgemm.v1 import qgemm_pb2 as pb

import h2_wire
import layers
from gemm_attacks import Feed
from h2_wire import CANCEL, DATA, RST_STREAM, frame
from scene import code_of, codes_of, expect, patiently

LOAD = layers.PACKAGE + "LoadWeights"


def upload_small(scene, name):
    """A small upload of somebody else; how long it took, with retries."""
    layer = layers.CheckedLayer(name, 16, 32, 1, 5)
    stub = scene.stub(over_unix=True)
    start = time.monotonic()
    patiently(lambda: layer.upload(stub, 60), limit_s=60)
    stub.UnloadWeights(pb.UnloadWeightsRequest(weights=name), timeout=20)
    return f"a small upload took {time.monotonic() - start:.1f} s"


def begin_uploads(scene, headers):
    """Uploads of which only the header comes: (feed, call) each."""
    stub = scene.stub()
    begun = []
    for header in headers:
        feed = Feed()
        feed.put(pb.LoadWeightsRequest(header=header))
        begun.append((feed, stub.LoadWeights.future(feed)))
    return begun


def end_uploads(begun):
    for feed, call in begun:
        call.cancel()
        feed.end()


def half_open_uploads(scene):
    """Headers that take every place, and no bytes after them."""
    begun = begin_uploads(scene, (
        layers.dense_header(f"half/{number}", 1024, 256)
        for number in range(8)))
    time.sleep(0.5)
    outcome = upload_small(scene, "half/other")
    end_uploads(begun)
    return outcome


def budget_hog(scene):
    """Three headers that take the whole budget, and no bytes after them."""
    begun = []
    for k in (1024, 256, 64):
        for percent in (100, 98, 95, 90, 80):  # the resident form is larger
            call = begin_uploads(scene, [layers.dense_header(
                f"half/{k}", room_of(scene) * percent // 100 // (2 * k), k)])
            time.sleep(0.3)
            if not call[0][1].done():
                begun += call
                break
    room = room_of(scene)
    outcome = upload_small(scene, "half/other")
    end_uploads(begun)
    return f"{outcome}; {room} bytes were left"


def room_of(scene):
    info = scene.stub().GetServerInfo(pb.GetServerInfoRequest(), timeout=20)
    return max(1, info.weights_budget_bytes - info.weights_bytes)


def slow_uploads(scene):
    """Uploads that send a byte now and then, and are never idle."""
    begun = begin_uploads(scene, (
        layers.dense_header(f"slow/{number}", 1024, 1024)
        for number in range(4)))
    for offset in range(scene.count(100)):
        for feed, _ in begun:
            feed.put(pb.LoadWeightsRequest(chunk=pb.WeightsChunk(
                section=pb.SECTION_CODES, offset=offset, bytes=b"\0")))
        time.sleep(0.1)
    outcome = upload_small(scene, "slow/other")
    ended = sum(call.done() for _, call in begun)
    end_uploads(begun)
    return f"{outcome}; {ended} of 4 slow ones were ended"


def empty_chunks(scene):
    """Chunks without bytes, which are no progress."""
    begun = begin_uploads(scene, [layers.dense_header("slow/empty", 64, 64)])
    (feed, call), = begun
    for _ in range(scene.count(20000)):
        feed.put(pb.LoadWeightsRequest(chunk=pb.WeightsChunk(
            section=pb.SECTION_CODES)))
    time.sleep(2 * scene.scale)
    outcome = upload_small(scene, "slow/other")
    done = call.done()
    end_uploads(begun)
    return f"{outcome}; it was {'ended' if done else 'still open'}"


def uploads_at_once(scene):
    """Five hundred whole uploads at the same time."""
    stub = scene.stub()
    layer = layers.CheckedLayer("crowd/layer", 64, 64, 1, 6)
    futures = [stub.LoadWeights.future(
        layers.dense_messages(f"crowd/{number}", layer.matrix), timeout=60)
        for number in range(scene.count(500))]
    counts = codes_of(futures, 60)
    for number in range(scene.count(500)):
        code_of(lambda n=number: stub.UnloadWeights(
            pb.UnloadWeightsRequest(weights=f"crowd/{n}"), timeout=20))
    expect(set(counts) <= {"OK", "RESOURCE_EXHAUSTED"}, str(counts))
    return str(counts)


def abandoned_uploads(scene):
    """Uploads that are reset or lose their connection between any two
    messages."""
    messages = [m.SerializeToString() for m in
                layers.wide_messages("abandoned/layer")]
    for number in range(scene.count(200)):
        with scene.connect(values={4: 1 << 20}) as connection:
            stream = connection.open(LOAD)
            for body in messages[:scene.random.randint(1, 2)]:
                connection.send(frame(DATA, 0, stream,
                                      h2_wire.message(body)))
            if number % 2:
                connection.send(frame(RST_STREAM, 0, stream,
                                      CANCEL.to_bytes(4, "big")))
            else:
                connection.abort()
    return f"{scene.count(200)} abandoned"


def cancelled_upload(scene):
    """An upload that is cancelled, or late, after its last byte: its client
    heard so, and the name stays free."""
    stub = scene.stub()
    for name, timeout in (("gone/cancelled", None), ("gone/late", 2)):
        layer = layers.CheckedLayer(name, 64, 64, 1, len(name))
        feed = Feed()
        for message in layers.dense_messages(name, layer.matrix):
            feed.put(message)
        call = stub.LoadWeights.future(feed, timeout=timeout)
        time.sleep(0.5)
        if timeout is None:
            call.cancel()
        code = code_of(call.result) if timeout else "CANCELLED"
        feed.end()
        time.sleep(0.3)
        bound = code_of(lambda n=name: stub.GetWeights(
            pb.GetWeightsRequest(weights=n), timeout=20))
        expect(bound == "NOT_FOUND",
               f"the client heard {code}, and {name} is bound ({bound})")
    return "neither is bound"


def in_threads(count, action):
    """action(number) for each number, by four threads."""
    def run(first):
        for number in range(first, count, 4):
            action(number)

    threads = [threading.Thread(target=run, args=(first,))
               for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def names(scene):
    """Names by the thousand for weights that the server holds already."""
    counts = {}
    stubs = [scene.stub() for _ in range(4)]
    with scene.layer(lambda: layers.wide_messages("names/first")) as held:
        header = next(layers.wide_messages("names/first")).header
        header.sha256 = bytes.fromhex(held.id)

        def bind(number):
            mine = pb.WeightsHeader()
            mine.CopyFrom(header)
            mine.name = f"names/{number:07}/" + "x" * 100
            code = code_of(lambda: stubs[number % 4].LoadWeights(
                iter([pb.LoadWeightsRequest(header=mine)]), timeout=60))
            counts[code] = counts.get(code, 0) + 1

        in_threads(scene.count(8000), bind)
        stock = grpc.insecure_channel(scene.target)
        with stock:
            listed = code_of(lambda: layers.stub_of(stock).GetWeights(
                pb.GetWeightsRequest(weights=held.id), timeout=60))
            expect(listed == "OK", f"a stock client's GetWeights: {listed}")
    return str(counts)


@contextlib.contextmanager
def many_layers(scene, stubs, total):
    """Layers of one element, gone afterwards: how many uploads ended with
    which code."""
    counts = {}
    ids = []

    def load(number):
        try:
            answer = stubs[number % 4].LoadWeights(
                layers.tiny_messages(number), timeout=60)
            ids.append(answer.weights.id)
            code = "OK"
        except grpc.RpcError as error:
            code = error.code().name
        counts[code] = counts.get(code, 0) + 1

    in_threads(total, load)
    try:
        yield counts
    finally:
        in_threads(len(ids), lambda number: code_of(
            lambda: stubs[number % 4].UnloadWeights(
                pb.UnloadWeightsRequest(weights=ids[number]), timeout=60)))


def tiny_layers(scene):
    """Layers of one element by the thousand, and lists of them all."""
    stubs = [scene.stub() for _ in range(4)]
    with many_layers(scene, stubs, scene.count(6000)) as counts:
        lists = [stubs[0].ListWeights.future(pb.ListWeightsRequest(),
                                             timeout=60) for _ in range(50)]
        listed = codes_of(lists, 60)
        stock = grpc.insecure_channel(scene.target)
        with stock:
            code = code_of(lambda: layers.stub_of(stock).ListWeights(
                pb.ListWeightsRequest(), timeout=60))
            expect(code == "OK", f"a stock client's ListWeights: {code}")
    return f"{counts}; 50 lists at once: {listed}"


def unread_lists(scene):
    """Lists of thousands of layers that are asked for and not fetched."""
    stubs = [scene.stub() for _ in range(4)]
    body = pb.ListWeightsRequest(page_size=10000).SerializeToString()
    with many_layers(scene, stubs, scene.count(4000)) as counts:
        with scene.connect(values={4: 0}) as connection:
            for _ in range(300):
                connection.call(layers.PACKAGE + "ListWeights", body)
            time.sleep(8 * scene.scale)  # the attack: none is read
            refused = len(connection.ended_streams)
    return f"{counts}; {refused} of 300 lists refused"


def reload_storm(scene):
    """A name rebound again and again while it is used and listed."""
    stop = time.monotonic() + 6 * scene.scale
    shapes = [layers.CheckedLayer("storm/layer", 32, 64, 1, seed)
              for seed in (1, 2)]
    wrong = []

    def load(number):
        stub = scene.stub()
        while time.monotonic() < stop:
            code_of(lambda: shapes[number % 2].upload(stub, 60))
            code_of(lambda: stub.UnloadWeights(
                pb.UnloadWeightsRequest(weights="storm/layer"), timeout=60))

    def use(_):
        stub = scene.stub()
        while time.monotonic() < stop:
            try:
                answer = stub.Gemm(shapes[0].request(), timeout=60).c
                other = stub.Gemm(shapes[1].request(), timeout=60).c
                wrong.append(len(answer) != 128 or len(other) != 128)
                stub.ListWeights(pb.ListWeightsRequest(), timeout=60)
            except grpc.RpcError as error:
                wrong.append(error.code() not in (
                    grpc.StatusCode.NOT_FOUND,
                    grpc.StatusCode.RESOURCE_EXHAUSTED))

    in_threads(4, lambda number: (load if number % 2 else use)(number // 2))
    expect(not any(wrong), f"{sum(wrong)} odd answers")
    return f"{len(wrong)} answers"


def odd_headers(scene):
    """Shapes, sizes and names at the ends of their types."""
    most = (1 << 64) - 1
    headers = [
        pb.WeightsHeader(name="odd", n=most, k=most, dense=pb.DenseFormat(
            type=2)),
        pb.WeightsHeader(name="odd", n=1 << 32, k=1 << 32,
                         q4_0=pb.Q40Format()),
        pb.WeightsHeader(name="odd", n=1 << 20, k=1 << 20, total_bytes=1 << 41,
                         dense=pb.DenseFormat(type=2)),
        pb.WeightsHeader(name="odd", n=0, k=0, ternary=pb.TernaryFormat()),
        pb.WeightsHeader(name="odd", n=1, k=33, kbit=pb.KbitFormat(bits=4)),
        pb.WeightsHeader(name="odd", n=1, k=32, kbit=pb.KbitFormat(bits=most >>
                                                                  32)),
        pb.WeightsHeader(name="odd", n=1, k=32, int4=pb.Int4Format(
            group_size=most >> 32)),
        pb.WeightsHeader(name="../../etc/\n" * 1000, n=1, k=1,
                         ternary=pb.TernaryFormat()),
        pb.WeightsHeader(name="odd", n=1, k=1, sha256=bytes(10000),
                         ternary=pb.TernaryFormat()),
        pb.WeightsHeader(name="odd", n=1, k=1, total_bytes=most,
                         ternary=pb.TernaryFormat()),
        pb.WeightsHeader(),
    ]
    stub = scene.stub()
    codes = [code_of(lambda h=header: stub.LoadWeights(
        iter([pb.LoadWeightsRequest(header=h)]), timeout=20))
        for header in headers]
    expect(set(codes) <= {"INVALID_ARGUMENT", "RESOURCE_EXHAUSTED",
                          "UNIMPLEMENTED"}, str(codes))
    return str(codes)
