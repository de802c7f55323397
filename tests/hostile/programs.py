# SPDX-License-Identifier: Apache-2.0
"""Programs for attacks, and the calls that load and run them."""

import contextlib
import threading

from qgemm.v1 import program_pb2
from qgemm.v1 import qgemm_pb2 as pb

from scene import code_of, expect, patiently

FP16 = program_pb2.NUMBER_TYPE_FP16
FP32 = program_pb2.NUMBER_TYPE_FP32
SILU = program_pb2.Program.Act.KIND_SILU
GELU = program_pb2.Program.Act.KIND_GELU_ERF
MAX_OPS = 64
LIGHT_WIDTH = 64
HEAVY_WIDTH = 2048


def program_of(width, value_type=FP32, constants=(), **fields):
    """A program of one input, without ops."""
    return program_pb2.Program(
        revision=1, value_type=value_type, constants=constants,
        inputs=[program_pb2.Program.Input(width=width)], **fields)


def add_op(program, **kind):
    """Appends an op; the number of its value."""
    program.ops.add(**kind)
    return (len(program.inputs) + len(program.constants) +
            len(program.ops) - 1)


def act(x, kind=SILU):
    return program_pb2.Program.Act(x=x, kind=kind)


def activations(width, count, value_type=FP32):
    """One activation behind the other."""
    program = program_of(width, value_type)
    x = 0
    for _ in range(count):
        x = add_op(program, act=act(x, GELU))
    program.outputs.append(x)
    return program


def heavy_program():
    """64 products, one behind the other: 2.7e8 multiply-adds a row."""
    program = program_of(HEAVY_WIDTH, FP16)
    x = 0
    for _ in range(MAX_OPS):
        x = add_op(program, gemm=program_pb2.Program.Gemm(
            x=x, weights="hog/heavy"))
    program.outputs.append(x)
    return program


def load(stub, program, name=""):
    return stub.LoadProgram(
        pb.LoadProgramRequest(name=name, program=program), timeout=60).program


def unload(stub, name_or_id):
    return code_of(lambda: stub.UnloadProgram(
        pb.UnloadProgramRequest(program=name_or_id), timeout=60))


@contextlib.contextmanager
def loaded(scene, name, program):
    """A program of the attacker's; gone afterwards."""
    stub = scene.stub()
    patiently(lambda: load(stub, program, name))
    try:
        yield
    finally:
        unload(stub, name)


def run_request(name, program, m, **fields):
    row_bytes = sum((2 if (value.type or program.value_type) != FP32 else 4) *
                    value.width for value in program.inputs)
    return pb.RunRequest(program=name, m=m, inputs=bytes(m * row_bytes),
                         **fields)


def expect_known(counts, *also):
    """Nobody is told of an error of the server's own."""
    known = {"OK", "RESOURCE_EXHAUSTED", "still waiting", "CANCELLED", *also}
    expect(set(counts) <= known, str(counts))
    return counts


def in_threads(count, action):
    """action(number) for each number, each in a thread."""
    threads = [threading.Thread(target=action, args=(number,))
               for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
