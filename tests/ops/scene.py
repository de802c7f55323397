# SPDX-License-Identifier: Apache-2.0
"""A qgemm_server under a little load, and a Prometheus that scrapes it."""

import contextlib
import json
import os
import pathlib
import re
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import grpc
from qgemm.v1 import qgemm_pb2 as pb
from qgemm.v1 import qgemm_pb2_grpc

import wire

OPS = pathlib.Path(__file__).resolve().parents[2] / "ops"
LIMIT_S = 30
N, K = 64, 64
LAYER = "ops/layer"


def wait_for(ask, what):
    """What `ask` returns once it returns anything."""
    limit = time.monotonic() + LIMIT_S
    while not (answer := ask()):
        if time.monotonic() > limit:
            raise RuntimeError(f"{what}: nothing after {LIMIT_S} s")
        time.sleep(0.05)
    return answer


class LoggedProcess:
    """A process in a folder of its own, and what it logs."""

    def __init__(self, command, folder):
        self.folder = pathlib.Path(folder)
        self._log = self.folder / "log"
        with open(self._log, "w", encoding="utf-8") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log,
                                             cwd=folder)

    def find(self, pattern):
        """The group of the pattern, once it is in the log."""
        def look():
            text = self._log.read_text(encoding="utf-8", errors="replace")
            if self._process.poll() is not None:
                raise RuntimeError(f"it ended:\n{text}")
            return re.search(pattern, text)
        return wait_for(look, pattern)[1]

    def end(self):
        self._process.terminate()
        self._process.wait(LIMIT_S)


class Load:
    """Uploads a layer and multiplies with it on a thread until it is left."""

    def __init__(self, addresses):
        self._channels = [grpc.insecure_channel(a) for a in addresses]
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        stub = qgemm_pb2_grpc.QgemmStub(self._channels[0])
        header = pb.WeightsHeader(
            name=LAYER, n=N, k=K,
            dense=pb.DenseFormat(type=pb.FLOAT_TYPE_FP16))
        wire.upload(stub, header, [("codes", bytes(N * K * 2))])
        self._thread.start()
        return self

    def _run(self):
        request = pb.GemmRequest(
            weights=LAYER, m=2, a_type=pb.FLOAT_TYPE_FP16, a=bytes(2 * K * 2),
            c_type=pb.FLOAT_TYPE_FP32)
        stubs = [qgemm_pb2_grpc.QgemmStub(c) for c in self._channels]
        while not self._end.wait(0.02):
            for stub in stubs:
                stub.Gemm(request, timeout=60)

    def __exit__(self, *_):
        self._end.set()
        self._thread.join()
        for channel in self._channels:
            channel.close()


@contextlib.contextmanager
def half_open_upload(address):
    """Sends a header and nothing else; cancels the upload at the end."""
    with grpc.insecure_channel(address) as channel:
        header = pb.WeightsHeader(
            name="ops/half", n=N, k=K,
            dense=pb.DenseFormat(type=pb.FLOAT_TYPE_FP16))
        leaves = threading.Event()

        def requests():
            yield pb.LoadWeightsRequest(header=header)
            leaves.wait()

        call = qgemm_pb2_grpc.QgemmStub(channel).LoadWeights.future(requests())
        try:
            yield
        finally:
            call.cancel()
            leaves.set()


class Server(LoggedProcess):
    def __init__(self, binary, folder, *flags):
        socket = os.path.join(folder, "socket")
        super().__init__(
            [binary, "--backend=cpu", "--listen=127.0.0.1:0",
             f"--listen=unix:{socket}", "--metrics_listen=127.0.0.1:0",
             "--weights_budget_bytes=64MiB", *flags], folder)
        self.metrics = "127.0.0.1:" + self.find(r"metrics\D*port\D*(\d+)")
        self.addresses = [self.find(r"serving on (127\.0\.0\.1:\d+)"),
                          f"unix:{socket}"]

    def get(self, path):
        with urllib.request.urlopen(f"http://{self.metrics}{path}",
                                    timeout=30) as answer:
            return answer.read().decode()


class Prometheus(LoggedProcess):
    """Debian's, with the configuration and the rules of ops/."""

    def __init__(self, target, folder):
        config = (OPS / "prometheus.yml").read_text(encoding="utf-8")
        config = config.replace("15s", "1s").replace("127.0.0.1:9090", target)
        config = config.replace("rules.yml", str(OPS / "rules.yml"))
        path = pathlib.Path(folder, "prometheus.yml")
        path.write_text(config, encoding="utf-8")
        super().__init__(
            ["prometheus", f"--config.file={path}",
             f"--storage.tsdb.path={folder}/data",
             "--web.listen-address=127.0.0.1:0"], folder)
        self._address = self.find(
            r'Listening on"? address=(127\.0\.0\.1:[1-9]\d*)')
        # It answers with 503 until then.
        self.find("(Server is ready to receive web requests)")

    def ask(self, path, **arguments):
        url = (f"http://{self._address}/api/v1/{path}?" +
               urllib.parse.urlencode(arguments))
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(
                f"{arguments}: {error.read().decode()}") from error

    def query(self, expression):
        return self.ask("query", query=expression)["result"]


@contextlib.contextmanager
def server_under_load(binary, *flags):
    with tempfile.TemporaryDirectory(prefix="qgemm-ops-") as folder:
        server = Server(binary, folder, *flags)
        try:
            with Load(server.addresses):
                yield server
        finally:
            server.end()


@contextlib.contextmanager
def prometheus_of(server):
    with tempfile.TemporaryDirectory(prefix="qgemm-prometheus-") as folder:
        prometheus = Prometheus(server.metrics, folder)
        try:
            yield prometheus
        finally:
            prometheus.end()
