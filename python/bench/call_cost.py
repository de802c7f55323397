# SPDX-License-Identifier: Apache-2.0
"""Cost of a Gemm by stock stubs, by the package and by its lane, for the same bytes.

Starts a server of its own and makes calls by each in turns of 50, so that all have
the same neighbours. Prints for each the median time of a call, which has the
server's part in it, and the processor time that the client's process takes for one;
then the ratios of the package to the stubs, and of the lane to the package's gRPC.

Usage: python call_cost.py [SERVER_BINARY]   (needs the package installed)
"""

import contextlib
import statistics
import sys
import tempfile
import time

import grpc
import numpy as np
import qgemm
from qgemm.v1 import qgemm_pb2 as pb
from qgemm.v1 import qgemm_pb2_grpc

TURNS, CALLS = 20, 50
NAMES = ("stock", "package", "lane")
SHAPES = ((1, 64, 64), (1, 1024, 1024), (64, 1024, 1024), (512, 1024, 1024))
LIMIT = [("grpc.max_send_message_length", 64 << 20),
         ("grpc.max_receive_message_length", 64 << 20)]


def stock(stub, x):
    """What a user of the stubs writes: float16 in and out."""
    answer = stub.Gemm(pb.GemmRequest(
        weights="layer", m=len(x), a_type=pb.FLOAT_TYPE_FP16, a=x.tobytes()),
        timeout=60)
    return np.frombuffer(answer.c, "<f2").reshape(len(x), -1)


def turn(call):
    """Seconds of each of a turn's calls, and processor seconds of one."""
    times, begin = [], time.process_time()
    for _ in range(CALLS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return times, (time.process_time() - begin) / CALLS


def measure(calls):
    """Median microseconds of a call, and of its processor time, for each."""
    times = {name: [] for name in calls}
    cpu = {name: [] for name in calls}
    for _ in range(TURNS):
        for name, call in calls.items():
            took, used = turn(call)
            times[name] += took
            cpu[name].append(used)
    return {name: (statistics.median(times[name]) * 1e6,
                   statistics.median(cpu[name]) * 1e6) for name in calls}


def print_row(shape, found):
    m, k, n = shape
    row = f"{m:<5} {k:<5} {n:<5} {2 * m * (k + n):<8}"
    for name in NAMES:
        row += f" {found[name][0]:<7.0f} {found[name][1]:<5.0f}"
    for name, base in (("package", "stock"), ("lane", "package")):
        row += "".join(f" {a / b:<6.2f}" for a, b in zip(found[name], found[base]))
    print(row.rstrip())


def main():
    binary = sys.argv[1] if len(sys.argv) > 1 else None
    print(f"microseconds a call, median of {TURNS * CALLS}, "
          "and the client's processor time")
    print("rows  k     n     bytes   ",
          *(f"{name:<7} cpu  " for name in NAMES), "package cpu  lane   cpu")
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        server = stack.enter_context(qgemm.serve(
            "--backend=cpu", f"--lane_listen=unix:{folder}/lane", binary=binary))
        client = stack.enter_context(server.connect(lane="off"))
        lane = stack.enter_context(server.connect(lane="required"))
        stub = qgemm_pb2_grpc.QgemmStub(stack.enter_context(
            grpc.insecure_channel(server.address, LIMIT)))
        for m, k, n in SHAPES:
            client.load("layer", np.ones((n, k), np.float16), format="q4_0")
            x = np.ones((m, k), np.float16)
            print_row((m, k, n), measure({
                "stock": lambda: stock(stub, x),
                "package": lambda: client.gemm("layer", x),
                "lane": lambda: lane.gemm("layer", x)}))


if __name__ == "__main__":
    main()
