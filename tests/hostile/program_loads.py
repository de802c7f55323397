# SPDX-License-Identifier: Apache-2.0
"""Programs by the thousand, large ones at once, descriptions that are not read,
and messages that are no programs."""

import time

import grpc
from qgemm.v1 import program_pb2
from qgemm.v1 import qgemm_pb2 as pb

import layers
from programs import (LIGHT_WIDTH, MAX_OPS, activations, add_op, expect_known,
                      heavy_program, in_threads, load, program_of, unload)
from scene import code_of, codes_of, expect, patiently

MAX_CONSTANT_BYTES = 1 << 20


def sum_with_constant(number, constant_bytes):
    """x plus a constant of so many bytes that no other number shares."""
    values = number.to_bytes(4, "little") + bytes(constant_bytes - 4)
    program = program_of(constant_bytes // 4, constants=[
        program_pb2.Program.Constant(values=values)])
    program.outputs.append(add_op(
        program, add=program_pb2.Program.Binary(x=0, y=1)))
    return program


def program_flood(scene):
    """Programs by the thousand, each with constants and a name of its own."""
    stubs = [scene.stub() for _ in range(4)]
    counts, ids = {}, []

    def flood(first):
        for number in range(first, scene.count(6000), 4):
            program = sum_with_constant(number, 4096)
            try:
                ids.append(load(stubs[first], program, f"flood/{number}").id)
                code = "OK"
            except grpc.RpcError as error:
                code = error.code().name
            counts[code] = counts.get(code, 0) + 1

    in_threads(4, flood)
    expect_known(counts)
    # Names beyond the limit are refused, not others forgotten.
    held = scene.stub().GetServerInfo(pb.GetServerInfoRequest()).programs
    expect(held >= min(len(ids), 4096), f"{held} programs of {len(ids)}")
    again = sum_with_constant(0, 4096)
    for number in range(scene.count(500)):
        code_of(lambda n=number: load(stubs[0], again, f"name/{n:0120}"))
    in_threads(4, lambda first: [unload(stubs[first], each)
                                 for each in ids[first::4]])
    return f"{counts}; {held} were held"


def large_programs_at_once(scene):
    """As many loads with a MiB of constants each as a connection takes, all
    at once, over several connections; and messages of 50 MB."""
    requests = [pb.LoadProgramRequest(program=sum_with_constant(
        number, MAX_CONSTANT_BYTES)) for number in range(8)]
    raw = [request.SerializeToString() for request in requests]
    oversized = pb.LoadProgramRequest(program=sum_with_constant(
        1, 50 * MAX_CONSTANT_BYTES)).SerializeToString()
    method = layers.PACKAGE + "LoadProgram"
    calls = [scene.raw_call(method, scene.channel()) for _ in range(8)]
    futures = [calls[number % 8].future(raw[number % 8], timeout=60)
               for number in range(scene.count(3000))]
    futures += [calls[number % 8].future(oversized, timeout=60)
                for number in range(scene.count(60))]
    counts = expect_known(codes_of(futures, 30), "INVALID_ARGUMENT",
                          "UNAVAILABLE")
    stub = scene.stub()
    for request in requests:
        info = patiently(lambda r=request: load(stub, r.program))
        unload(stub, info.id)
    return f"{len(futures)} loads: {counts}"


def program_lists(scene):
    """Lists and descriptions of programs with the longest texts by the
    thousand, some of them not read."""
    stub = scene.stub()
    ids = []
    for number in range(scene.count(300)):
        program = activations(LIGHT_WIDTH + number, MAX_OPS)
        ids.append(patiently(lambda p=program: load(stub, p)).id)
    try:
        counts = expect_known(codes_of(
            [stub.GetProgram.future(pb.GetProgramRequest(program=each),
                                    timeout=60)
             for each in ids for _ in range(10)] +
            [stub.ListPrograms.future(pb.ListProgramsRequest(), timeout=60)
             for _ in range(scene.count(300))], 60))
        body = pb.ListProgramsRequest(page_size=10000).SerializeToString()
        with scene.connect(values={4: 0}) as connection:
            for _ in range(300):
                connection.call(layers.PACKAGE + "ListPrograms", body)
            time.sleep(5 * scene.scale)  # the attack: none is read
            refused = len(connection.ended_streams)
    finally:
        for each in ids:
            unload(stub, each)
    return f"{counts}; {refused} of 300 unread lists refused"


def mutated_programs(scene):
    """Messages of LoadProgram with bytes changed, dropped and doubled."""
    program = heavy_program()
    body = pb.LoadProgramRequest(program=program).SerializeToString()
    call = scene.raw_call(layers.PACKAGE + "LoadProgram")
    counts = {}
    for _ in range(scene.count(2000)):
        mutated = bytearray(body)
        for _ in range(scene.random.randint(1, 6)):
            at = scene.random.randrange(len(mutated))
            mutated[at:at + scene.random.randint(0, 2)] = bytes(
                scene.random.randrange(256)
                for _ in range(scene.random.randint(0, 3)))
        code = code_of(lambda m=bytes(mutated): call(m, timeout=20))
        counts[code] = counts.get(code, 0) + 1
    return str(expect_known(counts, "INVALID_ARGUMENT", "NOT_FOUND",
                            "UNIMPLEMENTED"))
