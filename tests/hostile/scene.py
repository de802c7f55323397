# SPDX-License-Identifier: Apache-2.0
"""Where an attack takes place: the addresses that it may reach, its random
numbers, and the few moves that many attacks share."""

import contextlib
import dataclasses
import random
import time

import grpc
from qgemm.v1 import qgemm_pb2 as pb

import h2_wire
import layers


class Surprise(Exception):
    """The server answered an attack otherwise than it should."""


@dataclasses.dataclass
class Scene:
    tcp: tuple
    unix: str
    metrics: tuple
    seed: int
    # Below 1 the attack is as much smaller, for a short run.
    scale: float = 1.0

    def __post_init__(self):
        self.random = random.Random(self.seed)
        self._channels = []

    def close(self):
        for channel in self._channels:
            channel.close()

    def count(self, full):
        """A number of repetitions, scaled."""
        return max(1, int(full * self.scale))

    @property
    def target(self):
        return f"{self.tcp[0]}:{self.tcp[1]}"

    def channel(self, over_unix=False):
        """A channel with a connection of its own, open until the end."""
        channel = layers.channel_to(
            f"unix:{self.unix}" if over_unix else self.target)
        self._channels.append(channel)
        return channel

    def stub(self, over_unix=False):
        return layers.stub_of(self.channel(over_unix))

    def connect(self, **fields):
        """An HTTP/2 connection of frames made by hand."""
        return h2_wire.Connection(self.tcp, **fields)

    def greet(self, **fields):
        """The same after the server's first frames."""
        connection = self.connect(**fields)
        connection.wait_for(lambda: connection.received_bytes, 5)
        return connection

    def raw_call(self, method, channel=None):
        """A unary call that sends bytes and gets bytes."""
        return (channel or self.channel()).unary_unary(
            method, lambda data: data, lambda data: data)

    @contextlib.contextmanager
    def layer(self, messages):
        """Uploads a layer of the attacker's; gone afterwards."""
        stub = self.stub()
        info = patiently(lambda: stub.LoadWeights(messages(), timeout=60))
        try:
            yield info.weights
        finally:
            with contextlib.suppress(grpc.RpcError):
                stub.UnloadWeights(
                    pb.UnloadWeightsRequest(weights=info.weights.id),
                    timeout=20)


def patiently(action, limit_s=40):
    """Repeats what is refused with RESOURCE_EXHAUSTED."""
    limit = time.monotonic() + limit_s
    while True:
        try:
            return action()
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.RESOURCE_EXHAUSTED:
                raise Surprise(f"{error.code().name}: {error.details()}")
            expect(time.monotonic() < limit,
                   f"refused for {limit_s} s: {error.details()}")
        time.sleep(0.05)


def expect(truth, text):
    if not truth:
        raise Surprise(text)


def code_of(action):
    """The name of the code with which a call ends, "OK" included."""
    try:
        action()
        return "OK"
    except grpc.RpcError as error:
        return error.code().name


def codes_of(futures, timeout=30):
    """How many of the calls ended with which code; those that are not done
    by then are cancelled."""
    counts = {}
    limit = time.monotonic() + timeout
    for future in futures:
        try:
            future.result(timeout=max(0.01, limit - time.monotonic()))
            code = "OK"
        except grpc.FutureTimeoutError:
            future.cancel()
            code = "still waiting"
        except grpc.FutureCancelledError:
            code = "CANCELLED"
        except grpc.RpcError as error:
            code = error.code().name
        counts[code] = counts.get(code, 0) + 1
    return counts


def send_until_refused(connection, block, total_bytes):
    """Sends copies of a block; the bytes that went before the peer ended the
    connection or let it wait."""
    sent = 0
    try:
        while sent < total_bytes and not connection.ended:
            connection.send(block)
            sent += len(block)
    except OSError:
        pass
    return sent


def megabytes(count):
    return f"{count / 1e6:.1f} MB"
