# SPDX-License-Identifier: Apache-2.0
"""Single requests that are large: operands in fragments of tens of MiB, and a
product that takes seconds."""

import collections
import threading

import grpc
from qgemm.v1 import qgemm_pb2 as pb

import layers
from gemm_attacks import DEEP_K, deep_layer
from scene import expect, patiently

MIB = 1 << 20
FRAGMENT_BYTES = (60 * MIB, 40 * MIB, 20 * MIB)  # of one client each
OPERAND_ROWS = 4000
OPERAND_BYTES = 2 * OPERAND_ROWS * DEEP_K
NAMES_OF_CODES = {code.value[0]: code.name for code in grpc.StatusCode}
# 256 MiB of ternary codes, with A and C in fp16 just below --max_message_bytes:
# 1.07e12 multiply-adds.
LARGE_N, LARGE_K, LARGE_M = 32768, 32768, 1000


def operand_messages(request_id, fragment):
    """A request whose operand lacks its end."""
    yield pb.GemmStreamRequest(
        request_id=request_id, a=fragment, open=pb.GemmStreamOpen(
            a_bytes=OPERAND_BYTES, gemm=pb.GemmRequest(
                weights="hog/deep", m=OPERAND_ROWS,
                a_type=pb.FLOAT_TYPE_FP16)))
    for offset in range(len(fragment), OPERAND_BYTES - len(fragment),
                        len(fragment)):
        yield pb.GemmStreamRequest(
            request_id=request_id, a=fragment,
            fragment=pb.GemmStreamFragment(offset=offset))


def send_and_cancel(stub, fragment, counts):
    """A request that is cancelled before its end, and one whose call is
    cancelled as soon as the first one is answered."""
    def messages():
        for message in operand_messages(1, fragment):
            counts["fragments"] += 1
            yield message
        yield pb.GemmStreamRequest(request_id=1, cancel=pb.GemmStreamCancel())
        for message in operand_messages(2, fragment):
            counts["fragments"] += 1
            yield message

    call = stub.GemmStream(messages(), timeout=60)
    try:
        counts[NAMES_OF_CODES[next(call).error.code]] += 1
    except grpc.RpcError as error:
        counts[error.code().name] += 1
    call.cancel()


def big_fragments(scene):
    """Three clients whose operands come in fragments of up to 60 MiB, never
    whole, cancelled and begun again."""
    counts = collections.Counter()

    def attack(fragment_bytes):
        stub = scene.stub()
        for _ in range(scene.count(10)):
            send_and_cancel(stub, bytes(fragment_bytes), counts)

    with scene.layer(deep_layer):
        threads = [threading.Thread(target=attack, args=(fragment_bytes,))
                   for fragment_bytes in FRAGMENT_BYTES]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    # UNAVAILABLE: the connection brought most of what has come in part.
    expect(set(counts) <= {"fragments", "CANCELLED", "RESOURCE_EXHAUSTED",
                           "UNAVAILABLE"}, str(counts))
    return str(dict(counts))


def large_launch(scene):
    """A thousand rows for a layer of 256 MiB: seconds of work for all
    processors, in one request."""
    n = scene.count(LARGE_N)
    with scene.layer(lambda: layers.ternary_messages("hog/large", n,
                                                     LARGE_K)):
        request = pb.GemmRequest(
            weights="hog/large", m=LARGE_M, a_type=pb.FLOAT_TYPE_FP16,
            c_type=pb.FLOAT_TYPE_FP16, a=bytes(2 * LARGE_M * LARGE_K))
        stub = scene.stub()
        answer = patiently(lambda: stub.Gemm(request, timeout=120))
        expect(len(answer.c) == 2 * LARGE_M * n,
               f"an answer of {len(answer.c)} bytes")
        timings = answer.timings
    return (f"{LARGE_M * n * LARGE_K:.2e} multiply-adds took "
            f"{timings.kernel_ns / 1e9:.1f} s of {timings.total_ns / 1e9:.1f}")
