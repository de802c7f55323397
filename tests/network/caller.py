# SPDX-License-Identifier: Apache-2.0
"""A stock gRPC client with the service config that docs/deployment.md gives: calls
Gemm from several threads, checks each product, and prints a line of JSON.

Usage: caller.py TARGET LAYERS --calls=N [--until=FILE] [--threads=N]
           [--tls=FOLDER] [--deadline=SECONDS] [--stream] [--upload]
LAYERS are prefixes with a number each, "model/layer:4,other/layer:2": names of
layers of layer.py, which --upload sends first. It ends after so many calls, and once
FILE exists.
"""

import argparse
import collections
import json
import os
import pathlib
import threading

import grpc
from qgemm.v1 import qgemm_pb2 as pb
from qgemm.v1 import qgemm_pb2_grpc

import layer

RETRIES = json.dumps({"methodConfig": [{
    "name": [{"service": "qgemm.v1.Qgemm"}],
    "waitForReady": True,
    "retryPolicy": {
        "maxAttempts": 5,
        "initialBackoff": "0.2s",
        "maxBackoff": "5s",
        "backoffMultiplier": 3,
        "retryableStatusCodes": ["UNAVAILABLE"],
    },
}]})
OPTIONS = (("grpc.service_config", RETRIES),
           ("grpc.use_local_subchannel_pool", 1))


def channel_to(target, tls):
    if tls is None:
        return grpc.insecure_channel(target, OPTIONS)
    files = [pathlib.Path(tls) / name
             for name in ("ca.crt", "tls.key", "tls.crt")]
    credentials = grpc.ssl_channel_credentials(
        *(file.read_bytes() for file in files if file.exists()))
    return grpc.secure_channel(target, credentials, OPTIONS)


class Caller:
    """Counts what became of the calls of all threads."""

    def __init__(self, arguments):
        self._arguments = arguments
        self._names = [f"{prefix}{i}"
                       for entry in arguments.layers.split(",")
                       for prefix, number in [entry.split(":")]
                       for i in range(int(number))]
        self._lock = threading.Lock()
        self._begun = 0
        self.ends = collections.Counter()

    def run(self):
        if self._arguments.upload:
            with channel_to(self._arguments.target,
                            self._arguments.tls) as channel:
                layer.upload_over(channel, self._names)
        threads = [threading.Thread(target=self._work, args=(number,))
                   for number in range(self._arguments.threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _next(self):
        """The name to ask for, or None when enough was asked."""
        until = self._arguments.until
        with self._lock:
            if self._begun >= self._arguments.calls and (
                    until is None or os.path.exists(until)):
                return None
            self._begun += 1
            return self._names[self._begun % len(self._names)]

    def _work(self, number):
        with channel_to(self._arguments.target,
                        self._arguments.tls) as channel:
            stub = qgemm_pb2_grpc.QgemmStub(channel)
            a = layer.activations(number)
            call = self._stream if self._arguments.stream else self._unary
            while (name := self._next()) is not None:
                end = call(stub, layer.request(name, a), name, a)
                with self._lock:
                    self.ends[end] += 1

    def _unary(self, stub, request, name, a):
        try:
            answer = stub.Gemm(request, timeout=self._arguments.deadline)
        except grpc.RpcError as error:
            return f"{error.code().name}: {error.details()}"
        return "ok" if layer.is_product(name, a, answer.c) else "wrong"

    def _stream(self, stub, request, name, a):
        """One stream with one request, which waits for its answer."""
        answered = threading.Event()
        deadline = self._arguments.deadline

        def requests():
            operand, request.a = request.a, b""
            yield pb.GemmStreamRequest(
                request_id=1, open=pb.GemmStreamOpen(gemm=request), a=operand)
            answered.wait(deadline)

        try:
            c = b""
            for message in stub.GemmStream(requests(), timeout=deadline):
                c += message.c
                if len(c) == layer.product_bytes():
                    answered.set()
        except grpc.RpcError as error:
            answered.set()
            return f"{error.code().name}: {error.details()}"
        return "ok" if layer.is_product(name, a, c) else "wrong"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("target")
    parser.add_argument("layers")
    parser.add_argument("--calls", type=int, required=True)
    parser.add_argument("--until")
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--tls")
    parser.add_argument("--deadline", type=float, default=60)
    parser.add_argument("--stream", action="store_true")
    parser.add_argument("--upload", action="store_true")
    caller = Caller(parser.parse_args())
    caller.run()
    print(json.dumps(caller.ends))


if __name__ == "__main__":
    main()
