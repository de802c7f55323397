# SPDX-License-Identifier: Apache-2.0
"""A server with an access table: guesses of tokens and names by the thousand;
a table that is replaced, torn and removed, beside a client that it knows."""

import collections
import contextlib
import hashlib
import json
import os
import tempfile
import threading
import time

import grpc

import layers
from lifecycle_cases import expect_product, scene_of
from scene import expect
from subject import Subject
from table import COMMON_FLAGS

TOKEN = "0123456789abcdef" * 4
METHODS = ("Gemm", "Run", "UnloadWeights", "ListWeights", "GetServerInfo",
           "LoadProgram")
# What denied calls may leave behind: gRPC's buffers, and the heap's slack.
MOST_BYTES_LEFT = 64 << 20
# The server reads a table that has not changed for less.
REST_S = 0.25
MOST_RESTS = 120


def client(name, *matches):
    return {"id": name, "match": list(matches), "names": [""],
            "rights": ["compute", "load"]}


def token_match(token):
    return {"token_sha256": hashlib.sha256(token.encode()).hexdigest()}


class Table:
    """The file of a table that knows the user of this process."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="qgemm-access-")
        self.path = os.path.join(self._folder.name, "access.json")
        self.user = client("user", {"uid": os.geteuid()})
        self.replace(self.text())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._folder.cleanup()

    def text(self, *others):
        return json.dumps({"clients": [self.user, *others]})

    def replace(self, text):
        with open(self.path + ".next", "w", encoding="utf-8") as file:
            file.write(text)
        os.rename(self.path + ".next", self.path)

    def change(self, number):
        """A good table by two ways, or one of three bad ones."""
        good = self.text(client(f"c{number}", token_match(str(number))))
        kind = number % 5
        if kind == 0:
            self.replace(good)
        elif kind == 1:
            self.write_in_parts(good)
        elif kind == 2:
            self.replace(good[:-1 - number])
        elif kind == 3:
            self.replace("{" * number)
        else:
            os.remove(self.path)

    def write_in_parts(self, text):
        with open(self.path, "w", encoding="utf-8") as file:
            for character in text:
                file.write(character)
                file.flush()

def guesses(scene, number):
    """Metadata that says who calls, and is wrong: the table has no token."""
    random = scene.random
    token = random.choice((
        TOKEN[:-1], TOKEN + "0", TOKEN.upper(), "", " " + TOKEN,
        "%0*x" % (random.choice((1, 64, 3000)), number)))
    scheme = random.choice(("Bearer ", "bearer ", "Basic ", ""))
    wrong = [("authorization", scheme + token)]
    if random.random() < 0.2:
        wrong *= 2
    if random.random() < 0.3:
        wrong.append(("x-qgemm-identity", "cn:user"))
    return wrong


def guessed_tokens(binary, seed, scale):
    """Wrong tokens of all lengths, with large messages, on connections whose
    user is known: each is refused as such, and leaves nothing behind."""
    with Table() as table, Subject(binary, COMMON_FLAGS + (
            f"--access_table={table.path}",)) as subject, scene_of(
                subject, seed, scale) as scene:
        expect_product(scene)
        before = subject.rss_bytes()
        counts = collections.Counter()
        channels = [scene.channel(number % 2) for number in range(8)]
        for turn in range(scene.count(200)):
            calls = [scene.raw_call(layers.PACKAGE + method, channel).future(
                bytes(scene.random.choice((0, 100, 1 << 20))), timeout=60,
                metadata=guesses(scene, turn))
                     for channel in channels for method in METHODS]
            counts.update(call.code().name for call in calls)
        expect_product(scene)
        expect(set(counts) == {"UNAUTHENTICATED"}, f"{dict(counts)}")
        denied = subject.scrape()['qgemm_denied_calls_total{reason="token"}']
        expect(denied == sum(counts.values()), f"{denied} were counted")
        left = subject.rss_bytes() - before
        expect(left < MOST_BYTES_LEFT, f"{left} bytes are left")
        expect(not subject.foreign_log_lines(), "the log was forged")
        return f"{dict(counts)}, {left >> 20} MiB left"


class Caller(threading.Thread):
    """Calls until told to stop, and counts how calls end."""

    def __init__(self, stub, metadata=()):
        super().__init__()
        self.counts = collections.Counter()
        self.stopped = False
        self._stub = stub
        self._metadata = metadata
        self._layer = layers.CheckedLayer("bystander/layer", 64, 96, 3, 1)

    def run(self):
        while not self.stopped:
            try:
                answer = self._stub.Gemm(self._layer.request(), timeout=60,
                                         metadata=self._metadata)
                right = self._layer.is_right(answer.c)
                self.counts["right" if right else "wrong"] += 1
            except grpc.RpcError as error:
                self.counts[error.code().name] += 1


@contextlib.contextmanager
def calling(*callers):
    for caller in callers:
        caller.start()
    try:
        yield
    finally:
        for caller in callers:
            caller.stopped = True
        for caller in callers:
            caller.join()


def refused_tables(subject):
    return subject.scrape()["qgemm_access_reload_failures_total"]


def torn_tables(binary, seed, scale):
    """Tables, good and bad, renamed into place and written in
    parts, removed too, while a client that all of them know computes."""
    with Table() as table, Subject(binary, COMMON_FLAGS + (
            f"--access_table={table.path}",)) as subject, scene_of(
                subject, seed, scale) as scene:
        expect_product(scene)
        callers = [Caller(scene.stub(over_unix)) for over_unix in (0, 1)]
        with calling(*callers):
            for number in range(scene.count(60)):
                table.change(number)
                time.sleep(scene.random.choice((0, REST_S)))
            # Read for sure, as nothing follows it.
            table.replace("{")
            for _ in range(MOST_RESTS):
                if refused_tables(subject) > 0:
                    break
                time.sleep(REST_S)
        expect_product(scene)
        counts = callers[0].counts + callers[1].counts
        expect(set(counts) == {"right"}, f"calls of a known client: {counts}")
        refused = refused_tables(subject)
        expect(refused > 0, "no bad table was read")
        return f"{dict(counts)}, {refused:.0f} tables refused"


CASES = (guessed_tokens, torn_tables)
