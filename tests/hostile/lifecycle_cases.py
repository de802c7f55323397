# SPDX-License-Identifier: Apache-2.0
"""Starts and ends under attack, each with servers of its own."""

import contextlib
import os
import resource
import subprocess
import tempfile
import time

import grpc
from qgemm.v1 import qgemm_pb2 as pb

import connection_attacks
import gemm_attacks
import layers
import message_attacks
from scene import Scene, code_of, codes_of, expect
from subject import Subject
from table import COMMON_FLAGS
from upload_attacks import begin_uploads

MIB = 1 << 20
DRAIN_LIMIT_S = 40


def scene_of(subject, seed, scale):
    addresses = subject.addresses
    return contextlib.closing(Scene(addresses.tcp, addresses.unix,
                                    addresses.metrics, seed, scale))


def expect_product(scene):
    """A checked product over each listener, connected anew."""
    layer = layers.CheckedLayer("bystander/layer", 64, 96, 3, 1)
    for over_unix in (False, True):
        stub = scene.stub(over_unix)
        layer.upload(stub, 60)
        answer = stub.Gemm(layer.request(), timeout=60)
        expect(layer.is_right(answer.c), "a wrong product")


def drain_under_attack(binary, seed, scale):
    """SIGTERM with a queue of minutes, half uploads, unread answers and open
    streams: every call ends, and the process with 0."""
    with Subject(binary, COMMON_FLAGS[:2] + ("--drain_timeout=4s",)) as subject:
        with scene_of(subject, seed, scale) as scene:
            stub = scene.stub()
            stub.LoadWeights(gemm_attacks.big_layer(), timeout=60)
            stub.LoadWeights(layers.wide_messages("hog/wide"), timeout=60)
            calls = [stub.Gemm.future(gemm_attacks.big_request(), timeout=120)
                     for _ in range(int(900 * max(scale, 0.3)))]
            begun = begin_uploads(scene, [
                layers.dense_header(f"half/{number}", 64, 64)
                for number in range(3)])
            with scene.connect(values=gemm_attacks.NO_WINDOW) as unread, \
                    scene.greet(values=connection_attacks.MANY_STREAMS) as held:
                gemm_attacks.send_unread_stream(unread, 8, 0)
                for path in (connection_attacks.REFLECTION,
                             connection_attacks.WATCH,
                             gemm_attacks.STREAM):
                    connection_attacks.open_streams(held, path, 20, 0.2)
                code, seconds = subject.stop()
            counts = codes_of(calls + [call for _, call in begun], 20)
            for feed, _ in begun:
                feed.end()
        expect(code == 0, f"exit code {code}: {subject.log()[-300:]}")
        expect(set(counts) <= {"OK", "UNAVAILABLE", "RESOURCE_EXHAUSTED"},
               f"calls ended with {counts}")
        return f"drained in {seconds:.1f} s; calls: {counts}"


def drain_during_floods(binary, seed, scale):
    """SIGTERM while a compressed bomb and resets arrive."""
    with Subject(binary, COMMON_FLAGS) as subject:
        with scene_of(subject, seed, scale) as scene:
            expect_product(scene)
            with contextlib.suppress(OSError), scene.greet(
                    values={4: 1 << 30}) as connection:
                stream = connection.open(message_attacks.GEMM, extra=[
                    ("grpc-encoding", "gzip")])
                connection.send_data(stream, message_attacks.bomb(
                    1500 * MIB, 31))
                connection_attacks.open_streams(
                    connection, message_attacks.GEMM, 1000, 0)
            code, seconds = subject.stop()
        expect(code == 0, f"exit code {code}: {subject.log()[-300:]}")
        return f"drained in {seconds:.1f} s"


def end_of_memory(binary, seed, scale):
    """Answers, operands, layers and bombs where memory ends at 1.2 GB."""
    limits = {resource.RLIMIT_AS: 1_200_000_000}
    flags = ("--idle_timeout=3s", "--drain_timeout=10s")
    outcomes = []
    with Subject(binary, flags, limits) as subject:
        with scene_of(subject, seed, 1.0) as scene:
            expect_product(scene)
            for attack in (gemm_attacks.unread_answers,
                           gemm_attacks.unread_streams,
                           message_attacks.gzip_bomb,
                           message_attacks.unfinished_messages):
                with contextlib.suppress(OSError, grpc.RpcError):
                    attack(scene)
                expect(subject.alive, f"{attack.__name__} ended the server: "
                                      f"{subject.log()[-300:]}")
                outcomes.append(attack.__name__)
            for n in (32768, 1 << 20):
                code = code_of(lambda n=n: scene.stub().LoadWeights(
                    iter([pb.LoadWeightsRequest(
                        header=layers.dense_header("huge", n, n))]),
                    timeout=20))
                expect(code in ("RESOURCE_EXHAUSTED", "INVALID_ARGUMENT"),
                       f"a layer of {2 * n * n} bytes: {code}")
            expect_product(scene)
    return f"survived {', '.join(outcomes)} and layers of 2 GiB and 2 TiB"


def end_of_threads(binary, seed, scale):
    """Reflection streams where the address space ends the making of threads;
    then SIGTERM."""
    limits = {resource.RLIMIT_AS: 4_000_000_000}
    with Subject(binary, COMMON_FLAGS, limits) as subject:
        with scene_of(subject, seed, scale) as scene:
            with scene.greet(
                    values=connection_attacks.MANY_STREAMS) as connection:
                connection_attacks.open_streams(
                    connection, connection_attacks.REFLECTION, 1000)
                expect_product(scene)
                code, seconds = subject.stop()
        expect(code == 0, f"exit code {code}: {subject.log()[-300:]}")
        return f"drained in {seconds:.1f} s"


def start_on(binary, path):
    return subprocess.Popen(
        [binary, "--backend=cpu", f"--listen=unix:{path}"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def answers_on(path, timeout):
    with layers.channel_to(f"unix:{path}") as channel:
        return code_of(lambda: layers.stub_of(channel).GetServerInfo(
            pb.GetServerInfoRequest(), timeout=timeout,
            wait_for_ready=True)) == "OK"


def socket_race(binary, seed, scale):
    """Two servers started at once on one Unix socket: one serves, the other
    ends with 1."""
    del seed
    rounds = max(3, int(12 * scale))
    with tempfile.TemporaryDirectory(prefix="qgemm-hostile-") as folder:
        for number in range(rounds):
            path = os.path.join(folder, f"socket{number}")
            both = [start_on(binary, path) for _ in range(2)]
            try:
                judge_race(both, path)
            finally:
                for process in both:
                    process.kill()
                    process.wait()
    return f"{rounds} races, one server left each time"


def judge_race(both, path):
    limit = time.monotonic() + DRAIN_LIMIT_S
    while all(process.poll() is None for process in both):
        expect(time.monotonic() < limit, "both servers run on one socket")
        time.sleep(0.02)
    loser = next(process for process in both if process.poll() is not None)
    expect(loser.returncode == 1, f"the loser ended with {loser.returncode}")
    expect(answers_on(path, 20), "the winner does not answer")
    winner = both[1 - both.index(loser)]
    winner.terminate()
    expect(winner.wait(DRAIN_LIMIT_S) == 0, "the winner did not drain")


def stale_socket(binary, seed, scale):
    """A socket left by SIGKILL is replaced; one that is in use, a file and a
    link are not."""
    del seed, scale
    with tempfile.TemporaryDirectory(prefix="qgemm-hostile-") as folder:
        path = os.path.join(folder, "socket")
        processes = [start_on(binary, path)]
        try:
            expect(answers_on(path, 30), "no answer")
            processes[0].kill()
            processes[0].wait()
            processes.append(start_on(binary, path))
            expect(answers_on(path, 30), "a stale socket is in the way")
            processes.append(start_on(binary, path))
            expect(processes[2].wait(DRAIN_LIMIT_S) == 1, "it was taken over")
            expect(answers_on(path, 30), "the first server lost its socket")
            for name in ("file", "link"):
                other = os.path.join(folder, name)
                if name == "file":
                    with open(other, "w", encoding="ascii") as file:
                        file.write("precious")
                else:
                    os.symlink(os.path.join(folder, "file"), other)
                processes.append(start_on(binary, other))
                expect(processes[-1].wait(DRAIN_LIMIT_S) == 1,
                       f"a {name} was replaced")
            with open(os.path.join(folder, "file"), encoding="ascii") as file:
                expect(file.read() == "precious", "the file was written to")
        finally:
            for process in processes:
                process.kill()
                process.wait()
    return "replaced; others refused"


CASES = (drain_under_attack, drain_during_floods, end_of_memory,
         end_of_threads, socket_race, stale_socket)
