# SPDX-License-Identifier: Apache-2.0
"""Runs of programs that are as wide or heavy as they may be, that are not what
they say, or that never come whole."""

import contextlib
import time

import grpc
import numpy as np
from qgemm.v1 import program_pb2
from qgemm.v1 import qgemm_pb2 as pb

import h2_wire
import layers
from gemm_attacks import Feed
from programs import (FP16, HEAVY_WIDTH, LIGHT_WIDTH, act, activations, add_op,
                      expect_known, heavy_program, in_threads, load, loaded,
                      program_of, run_request, unload)
from scene import code_of, codes_of, expect, patiently

RUN = layers.PACKAGE + "Run"
MAX_WIDTH = 1 << 20
HEAVY_ROWS = 3


def heavy_messages():
    return layers.ternary_messages("hog/heavy", HEAVY_WIDTH, HEAVY_WIDTH)


def wide_runs(scene):
    """Sixty activations of the widest values, in messages of 8 MiB from many
    calls at once."""
    program = activations(MAX_WIDTH, 60, FP16)
    with loaded(scene, "hog/wide", program):
        stubs = [scene.stub() for _ in range(4)]
        request = run_request("hog/wide", program, 4)
        futures = [stubs[number % 4].Run.future(request, timeout=100)
                   for number in range(scene.count(40))]
        # UNAVAILABLE: their connection brought most of what is in transit.
        counts = expect_known(codes_of(futures, 20 * scene.scale),
                              "UNAVAILABLE")
        one = run_request("hog/wide", program, 1)
        answer = patiently(lambda: stubs[0].Run(one, timeout=60), 60)
        expect(len(answer.outputs) == 2 * MAX_WIDTH, "a part of an answer")
    return f"{len(futures)} runs of {len(request.inputs) >> 20} MiB: {counts}"


def wide_scratch(scene):
    """Rows of a few bytes that take megabytes of scratch each."""
    with scene.layer(lambda: layers.wide_messages("hog/scratch")):
        program = program_of(layers.WIDE_K, FP16)
        x = add_op(program, gemm=program_pb2.Program.Gemm(
            x=0, weights="hog/scratch"))
        for _ in range(20):
            x = add_op(program, act=act(x))
        program.outputs.append(add_op(
            program, slice=program_pb2.Program.Slice(x=x, width=1)))
        with loaded(scene, "hog/scratch", program):
            stub = scene.stub()
            futures = [stub.Run.future(
                run_request("hog/scratch", program, 64), timeout=100)
                for _ in range(scene.count(100))]
            counts = expect_known(codes_of(futures, 20 * scene.scale))
            huge = run_request("hog/scratch", program, 16384)
            code = code_of(lambda: stub.Run(huge, timeout=4))
    return f"{counts}; 16384 rows: {code}"


def heavy_runs(scene):
    """900 runs of 64 products each, and three rows of another client's
    beside them, which are answered before those are."""
    program = heavy_program()
    light = activations(LIGHT_WIDTH, 1)
    with contextlib.ExitStack() as stack:
        stack.enter_context(scene.layer(heavy_messages))
        stack.enter_context(loaded(scene, "hog/heavy", program))
        stack.enter_context(loaded(scene, "hog/light", light))
        stubs = [scene.stub() for _ in range(4)]
        request = run_request("hog/heavy", program, HEAVY_ROWS)
        # 21 launches at least, of which an answer may wait for three.
        futures = [stubs[number % 4].Run.future(request, timeout=100)
                   for number in range(max(450, scene.count(900)))]
        other = scene.stub(over_unix=True)
        for _ in range(3):
            answer = patiently(lambda: other.Run(run_request(
                "hog/light", light, 3, client_id="three-rows"), timeout=60))
            expect(len(answer.outputs) == 3 * 4 * LIGHT_WIDTH, "odd answer")
        done = sum(future.done() for future in futures)
        expect(done < len(futures), f"three rows waited for {done} requests")
        counts = expect_known(codes_of(futures, 15 * scene.scale))
    return f"{counts}; {done} done before the third answer of three rows"


def false_runs(scene):
    """Operands of other sizes than m rows have, and m at the ends of 64
    bits, in calls and streams."""
    program = activations(LIGHT_WIDTH, 3)
    row = bytes(4 * LIGHT_WIDTH)
    codes = {}
    with loaded(scene, "odd/program", program):
        stub = scene.stub()
        for m, inputs in ((1, b""), (1, row + b"x"), (2, row), (0, b""),
                          (0, row), (1 << 31, row), (1 << 56, b""),
                          ((1 << 64) - 1, row)):
            request = pb.RunRequest(program="odd/program", m=m, inputs=inputs)
            codes[f"m={m:#x}/{len(inputs)}"] = code_of(
                lambda r=request: stub.Run(r, timeout=20))
            codes[f"stream m={m:#x}/{len(inputs)}"] = stream_code(stub, request)
        for name in ("", "odd/none", "odd/../program\n", "0" * 64):
            codes[f"program={name!r}"] = code_of(lambda n=name: stub.Run(
                pb.RunRequest(program=n, m=1, inputs=row), timeout=20))
    expect(set(codes.values()) <= {"INVALID_ARGUMENT", "NOT_FOUND",
                                   "RESOURCE_EXHAUSTED"}, str(codes))
    return f"{len(codes)} refused"


def stream_message(request, **fields):
    """The message that begins a run on a stream, with all of its operand."""
    run = pb.RunRequest()
    run.CopyFrom(request)
    run.ClearField("inputs")
    return pb.GemmStreamRequest(request_id=1, a=request.inputs,
                                open=pb.GemmStreamOpen(run=run, **fields))


def stream_code(stub, request):
    """The code of a run on a stream of its own, "OK" included."""
    try:
        answer = next(stub.GemmStream(iter([stream_message(request)]),
                                      timeout=20))
    except grpc.RpcError as error:
        return error.code().name
    codes = {code.value[0]: code.name for code in grpc.StatusCode}
    return codes[answer.error.code]


def declared_runs(scene):
    """Runs on streams that announce gigabytes of inputs and send four
    bytes; runs of others go on or are asked to retry."""
    program = activations(16384, 1)
    light = activations(LIGHT_WIDTH, 1)
    with contextlib.ExitStack() as stack:
        stack.enter_context(loaded(scene, "hog/declared", program))
        stack.enter_context(loaded(scene, "hog/light", light))
        feeds = [Feed() for _ in range(scene.count(40))]
        calls = [scene.stub().GemmStream(feed) for feed in feeds]
        for feed in feeds:
            feed.put(pb.GemmStreamRequest(
                request_id=1, a=b"1234", open=pb.GemmStreamOpen(
                    a_bytes=4096 * 16384 * 4, run=pb.RunRequest(
                        program="hog/declared", m=4096))))
        start = time.monotonic()
        other = scene.stub(over_unix=True)
        patiently(lambda: other.Run(run_request("hog/light", light, 3),
                                    timeout=60))
        waited = time.monotonic() - start
        time.sleep(3 * scene.scale)  # the attack: the rest is never sent
        for feed, call in zip(feeds, calls):
            call.cancel()
            feed.end()
    return f"{len(feeds)} streams; three rows after {waited:.2f} s"


def cut_runs(scene):
    """Run messages that end in the middle of their operand, with their
    connection."""
    program = activations(4096, 2)
    with loaded(scene, "hog/cut", program):
        body = h2_wire.message(
            run_request("hog/cut", program, 256).SerializeToString())
        for number in range(scene.count(150)):
            with scene.connect(values={4: h2_wire.LARGE_WINDOW}) as connection:
                stream = connection.open(RUN)
                with contextlib.suppress(OSError):
                    connection.send_data(
                        stream, body[:scene.random.randrange(len(body))],
                        end=bool(number % 2))
                connection.abort()
    return f"{scene.count(150)} messages cut"


def unload_while_running(scene):
    """Programs and their weights that go, and come as others, while many
    run them: an answer is whole, or there is none."""
    stop = time.monotonic() + 8 * scene.scale
    shapes = [(LIGHT_WIDTH, 32), (LIGHT_WIDTH, 48)]
    programs = []
    for _ in shapes:
        program = program_of(LIGHT_WIDTH, FP16)
        x = add_op(program, gemm=program_pb2.Program.Gemm(
            x=0, weights="storm/weights"))
        program.outputs.append(add_op(program, act=act(x)))
        programs.append(program)
    counts, odd = {}, []

    def change(number):
        stub = scene.stub()
        k, n = shapes[number]
        matrix = np.full((n, k), 0.5)
        while time.monotonic() < stop:
            code_of(lambda: stub.LoadWeights(layers.dense_messages(
                "storm/weights", matrix), timeout=60))
            code_of(lambda: load(stub, programs[number], "storm/program"))
            code_of(lambda: stub.UnloadWeights(pb.UnloadWeightsRequest(
                weights="storm/weights"), timeout=60))
            unload(stub, "storm/program")

    def use(_):
        stub = scene.stub()
        request = run_request("storm/program", programs[0], 3)
        while time.monotonic() < stop:
            try:
                size = len(stub.Run(request, timeout=60).outputs)
                code = "OK"
                if size not in (3 * 2 * 32, 3 * 2 * 48):
                    odd.append(size)
            except grpc.RpcError as error:
                code = error.code().name
            counts[code] = counts.get(code, 0) + 1

    in_threads(6, lambda number: (change if number < 2 else use)(number))
    stub = scene.stub()
    unload(stub, "storm/program")
    code_of(lambda: stub.UnloadWeights(
        pb.UnloadWeightsRequest(weights="storm/weights"), timeout=60))
    expect(not odd, f"answers of {odd[:5]} bytes")
    return str(expect_known(counts, "NOT_FOUND"))
