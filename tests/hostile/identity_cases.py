# SPDX-License-Identifier: Apache-2.0
"""Clients of several users, which root alone can be: shares of connections, and
identities that others would take."""

import contextlib
import os
import re
import socket
import time
import urllib.error
import urllib.request

from qgemm.v1 import qgemm_pb2 as pb

import h2_wire
import layers
from connection_attacks import WATCH
from lifecycle_cases import expect_product, scene_of
from many_connections import Calls, Flood
from scene import expect
from subject import Subject
from table import COMMON_FLAGS

USERS = (60001, 60002)
# More than --max_peer_connections.
WANTED_CONNECTIONS = 600
UNLOAD = layers.PACKAGE + "UnloadWeights"
CLIENT_IN_LOG = re.compile(r'request_refused .*client="?([^"]*)"? address=')
LOG_LIMIT_S = 20


@contextlib.contextmanager
def as_user(uid):
    """Sockets that this process makes meanwhile are the user's."""
    # Loads a codec, whose file another user may not read.
    socket.getaddrinfo("127.0.0.1", 0)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)


def expect_ready(scene):
    host, port = scene.metrics
    try:
        urllib.request.urlopen(f"http://{host}:{port}/readyz",
                               timeout=20).close()
    except urllib.error.HTTPError as error:
        expect(False, f"not ready: {error.read()!r}")


def two_full_users(binary, seed, scale):
    """Two users fill their shares of connections, over TCP and over the Unix
    socket; a third one connects to both, and the server stays ready."""
    held = []
    with Subject(binary, COMMON_FLAGS) as subject, contextlib.ExitStack() as (
            stack):
        scene = stack.enter_context(scene_of(subject, seed, scale))
        for uid, address in zip(USERS, (scene.tcp, scene.unix)):
            with as_user(uid):
                held.append(stack.enter_context(Flood(
                    address, WANTED_CONNECTIONS,
                    Calls(WATCH, most=1, at_once=1))))
            held[-1].go_on(20, held[-1].all_were_answered)
            expect(0 < held[-1].left_open < WANTED_CONNECTIONS,
                   f"user {uid} has no share: {held[-1]}")
        for _ in range(3):
            expect_product(scene)
            expect_ready(scene)
            for flood in held:
                flood.go_on(1)
    return "connections: " + " and ".join(str(flood.left_open)
                                          for flood in held)


def client_of(subject, connection):
    """The identity that the server's log gives to the connection."""
    start = subject.log_bytes()
    connection.call(UNLOAD, pb.UnloadWeightsRequest(
        weights="nothing").SerializeToString())
    limit = time.monotonic() + LOG_LIMIT_S
    while True:
        found = CLIENT_IN_LOG.search(subject.log(start))
        if found:
            return found.group(1)
        expect(time.monotonic() < limit,
               f"no refusal in the log: {subject.log(start)}")
        time.sleep(0.02)


def two_listeners(binary, seed, scale):
    """A client connects to the second listener from the address and port that
    another one has at the first."""
    del seed, scale
    victim_uid, attacker_uid = USERS
    with Subject(binary, COMMON_FLAGS + ("--listen=127.0.0.1:0",)) as (
            subject), contextlib.ExitStack() as stack:
        first, second = subject.tcp_addresses
        with as_user(victim_uid):
            victim = stack.enter_context(
                h2_wire.Connection(first, source=("127.0.0.1", 0)))
        own = victim.socket.getsockname()
        clients = [client_of(subject, victim)]
        with as_user(attacker_uid):
            attacker = stack.enter_context(
                h2_wire.Connection(second, source=own))
        clients += [client_of(subject, each) for each in (attacker, victim)]
        attacker.close()
        clients.append(client_of(subject, victim))
    expect(clients == [f"uid {uid}" for uid in (
        victim_uid, attacker_uid, victim_uid, victim_uid)],
           f"victim, attacker, victim beside and after it: {clients}")
    return f"both from {own[0]}:{own[1]}: {clients}"


CASES = (two_full_users, two_listeners)
