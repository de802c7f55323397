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
from qgemm.v1 import program_pb2
from qgemm.v1 import qgemm_pb2 as pb

import gemm_attacks
import layers
import programs
from lifecycle_cases import expect_product, scene_of
from scene import codes_of, expect
from subject import Subject
from table import COMMON_FLAGS
from upload_attacks import Feed, end_uploads

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


def bearer(token):
    return (("authorization", "Bearer " + token),)


def flood(stubs, metadata, count):
    """Big requests at once, far more than a quota has room for; how many ended
    with which code."""
    return collections.Counter(codes_of(
        [stubs[number % len(stubs)].Gemm.future(
            gemm_attacks.big_request(), timeout=120, metadata=metadata)
         for number in range(count)], timeout=120))


def begin_upload(stub, metadata, number):
    """An upload of which only the header comes."""
    feed = Feed()
    feed.put(pb.LoadWeightsRequest(
        header=layers.dense_header(f"half/{number}", 1024, 256)))
    return feed, stub.LoadWeights.future(feed, metadata=metadata)


def flooding_tenant(binary, seed, scale):
    """Two clients of the table are one user of one socket. One of them fills
    its quota of the queue and its places for uploads; the other has every
    product meanwhile, and is refused nothing."""
    matches = {"flooder": TOKEN, "victim": TOKEN[::-1]}
    flooder, victim_token = ((("authorization", "Bearer " + token),)
                             for token in matches.values())
    with Table() as table:
        table.replace(table.text(*(client(name, token_match(token))
                                   for name, token in matches.items())))
        with Subject(binary, COMMON_FLAGS + (
                f"--access_table={table.path}",
                "--max_client_queued_bytes=8MiB")) as subject, scene_of(
                    subject, seed, scale) as scene:
            expect_product(scene)
            stubs = [scene.stub(over_unix=True) for _ in range(4)]
            stubs[0].LoadWeights(gemm_attacks.big_layer(), timeout=60,
                                 metadata=flooder)
            begun = [begin_upload(stubs[0], flooder, number)
                     for number in range(8)]
            victim = Caller(scene.stub(over_unix=True), victim_token)
            counts = collections.Counter()
            with calling(victim):
                while victim.counts["right"] < 40 and (
                        sum(victim.counts.values()) == victim.counts["right"]):
                    counts += flood(stubs, flooder, scene.count(400))
            end_uploads(begun)
            expect(set(victim.counts) == {"right"},
                   f"the victim's calls: {dict(victim.counts)}")
            expect(counts["RESOURCE_EXHAUSTED"],
                   f"the flooder was refused nothing: {dict(counts)}")
    return f"victim {dict(victim.counts)}, flooder {dict(counts)}"


def questions(asked):
    """Requests about weights or a program, by a name or an id."""
    program = programs.program_of(96)
    programs.add_op(program, gemm=program_pb2.Program.Gemm(x=0, weights=asked))
    program.outputs.append(1)
    upload = layers.dense_header("curious/layer", 64, 96)
    return (
        ("Gemm", pb.GemmRequest(weights=asked, m=3, a_type=2,
                                a=bytes(2 * 3 * 96))),
        ("Run", pb.RunRequest(program=asked, m=1, inputs=bytes(4 * 96))),
        ("GetWeights", pb.GetWeightsRequest(weights=asked)),
        ("GetProgram", pb.GetProgramRequest(program=asked)),
        ("UnloadWeights", pb.UnloadWeightsRequest(weights=asked)),
        ("UnloadWeights", pb.UnloadWeightsRequest(prefix=asked)),
        ("QueryUpload", pb.QueryUploadRequest(id=asked)),
        ("FindMissingWeights", pb.FindMissingWeightsRequest(ids=[asked])),
        ("PinWeights", pb.PinWeightsRequest(weights=[asked])),
        ("TouchWeights", pb.TouchWeightsRequest(weights=[asked])),
        ("UnloadProgram", pb.UnloadProgramRequest(program=asked)),
        ("ListWeights", pb.ListWeightsRequest(page_token=asked)),
        ("ListPrograms", pb.ListProgramsRequest(page_token=asked)),
        ("LoadProgram", pb.LoadProgramRequest(program=program)),
        ("LoadWeights", with_header(upload, name=asked)),
        ("LoadWeights", with_header(upload, name=asked, create_only=True)),
        ("LoadWeights", with_header(upload, name=asked, if_match="0" * 64)),
        ("LoadWeights", with_header(upload, if_match=asked)))


def with_header(header, **fields):
    changed = pb.WeightsHeader()
    changed.CopyFrom(header)
    changed.MergeFrom(pb.WeightsHeader(**fields))
    return iter([pb.LoadWeightsRequest(header=changed)])


def answer_to(stub, method, request, metadata, asked):
    """The code and the words, without what was asked for."""
    try:
        answer = getattr(stub, method)(request, timeout=60, metadata=metadata)
        words = str(answer).replace(asked, "ASKED")
        return f"{method}: OK {words}"
    except grpc.RpcError as error:
        words = error.details().replace(asked, "ASKED")
        return f"{method}: {error.code().name} {words}"


def curious_tenant(binary, seed, scale):
    """Every question about another's layer and program, by name and by id, is
    answered as one about nothing, in words that name nobody and nothing of
    the other's."""
    with Table() as table:
        curious = client("curious", token_match(TOKEN)) | {
            "names": ["curious/"]}
        table.replace(table.text(curious))
        with Subject(binary, COMMON_FLAGS + (
                f"--access_table={table.path}",)) as subject, scene_of(
                    subject, seed, scale) as scene:
            stub = scene.stub(over_unix=True)
            layer = layers.CheckedLayer("bystander/layer", 64, 96, 3, 1)
            layer.upload(stub, 60)
            info = stub.GetWeights(pb.GetWeightsRequest(weights=layer.name))
            program = stub.LoadProgram(pb.LoadProgramRequest(
                name="bystander/program", program=layer.program())).program
            secrets = (layer.name, info.weights.id, "bystander/program",
                       program.id)
            metadata = (("authorization", "Bearer " + TOKEN),)
            told = 0
            for secret in secrets:
                nothing = secret[:-1] + ("0" if secret[-1] != "0" else "1")
                for (method, real), (_, other) in zip(questions(secret),
                                                      questions(nothing)):
                    answers = [answer_to(stub, method, request, metadata, asked)
                               for request, asked in ((real, secret),
                                                      (other, nothing))]
                    expect(answers[0] == answers[1], f"{secret}: {answers}")
                    expect(not any(word in answers[0] for word in
                                   (*secrets, '"user"', "client user")),
                           f"{secret}: {answers[0]}")
                    told += 1
            expect_product(scene)
    return f"{told} pairs of questions"


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


CASES = (guessed_tokens, curious_tenant, flooding_tenant, torn_tables)
