# SPDX-License-Identifier: Apache-2.0
"""A listener of TLS, attacked by somebody with a certificate. No frames are to
be seen through the cipher: what holds is the bound of what gRPC holds, and turns
in reading."""

import contextlib
import json
import os
import ssl
import subprocess
import tempfile
import threading
import time

import connection_attacks
import h2_wire
from lifecycle_cases import expect_product, scene_of
from scene import Scene, expect
from subject import MIB, Subject
from table import COMMON_FLAGS

TRANSPORT_MIB = 96
# Calls that are only their headers fill the bound; a call takes 12 KB and more.
CALLS_THAT_FILL = 40_000
# Beyond the bound: the server itself, and what it holds while connections end.
SLACK_MIB = 400
RETURN_LIMIT_S = 60


class TlsSocket:
    """Enough of a socket for h2_wire: one thread sends, another receives."""

    def __init__(self, raw, context):
        self._raw = raw
        self._lock = threading.Lock()
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing,
                                     server_hostname="localhost")
        while not self._is_greeted():
            self._incoming.write(raw.recv(1 << 16))

    def __getattr__(self, name):
        return getattr(self._raw, name)

    def _is_greeted(self):
        try:
            self._tls.do_handshake()
            return True
        except ssl.SSLWantReadError:
            return False
        finally:
            self._raw.sendall(self._outgoing.read())

    def sendall(self, data):
        with self._lock:
            self._tls.write(data)
            records = self._outgoing.read()
        self._raw.sendall(records)

    def recv(self, most):
        while True:
            with self._lock, contextlib.suppress(ssl.SSLWantReadError):
                return self._tls.read(most)
            records = self._raw.recv(1 << 16)
            if not records:
                return b""
            with self._lock:
                self._incoming.write(records)


class TlsScene(Scene):
    """One whose frames made by hand go through TLS."""

    def __init__(self, address, others, context):
        super().__init__(address, others.unix, others.metrics, others.seed,
                         others.scale)
        self._context = context

    def connect(self, **fields):
        return h2_wire.Connection(
            self.tcp, wrap=lambda raw: TlsSocket(raw, self._context), **fields)


class Certificates:
    """An authority's, with a server's and a client's key, and a table that
    knows the client and this user."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="qgemm-tls-")
        self._make("ca", "-x509")
        for name in ("server", "client"):
            self._make(name, "-x509", "-CA", self.path("ca.pem"), "-CAkey",
                       self.path("ca.key"), "-addext",
                       "subjectAltName=DNS:localhost")
        with open(self.path("table.json"), "w", encoding="utf-8") as file:
            json.dump({"clients": [
                {"id": name, "match": [match], "names": [""],
                 "rights": ["compute", "load", "debug"]}
                for name, match in (("client", {"cn": "client"}),
                                    ("user", {"uid": os.geteuid()}))]}, file)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._folder.cleanup()

    def path(self, name):
        return os.path.join(self._folder.name, name)

    def _make(self, name, *arguments):
        subprocess.run(
            ["openssl", "req", "-newkey", "ec", "-pkeyopt",
             "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
             "-days", "2", "-keyout", self.path(f"{name}.key"), "-out",
             self.path(f"{name}.pem"), *arguments],
            check=True, capture_output=True)

    def flags(self):
        return ("--listen=tls:127.0.0.1:0",
                f"--access_table={self.path('table.json')}",
                f"--tls_cert={self.path('server.pem')}",
                f"--tls_key={self.path('server.key')}",
                f"--tls_client_ca={self.path('ca.pem')}")

    def context(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self.path("ca.pem"))
        context.load_cert_chain(self.path("client.pem"),
                                self.path("client.key"))
        context.set_alpn_protocols(["h2"])
        return context


@contextlib.contextmanager
def tls_server(binary, seed, scale):
    """A server, the scene of its other clients, and the attacker's."""
    with Certificates() as certificates, Subject(
            binary, COMMON_FLAGS + certificates.flags() + (
                f"--max_transport_bytes={TRANSPORT_MIB}MiB",)) as subject, \
            scene_of(subject, seed, scale) as others:
        expect_product(others)
        yield subject, others, TlsScene(subject.tcp_addresses[1], others,
                                        certificates.context())


def expect_memory_back(subject, before):
    limit = time.monotonic() + RETURN_LIMIT_S
    while subject.rss_bytes() > before + TRANSPORT_MIB * MIB:
        expect(time.monotonic() < limit,
               f"{(subject.rss_bytes() - before) // MIB} MiB stay")
        time.sleep(0.2)


def calls_of_headers_over_tls(binary, seed, scale):
    """Calls that are only their headers, of a client that acknowledges no
    limit: its connection ends when they fill what gRPC may hold."""
    headers = h2_wire.request_headers(connection_attacks.GEMM)
    with tls_server(binary, seed, scale) as (subject, others, attacker):
        before, most, sent = subject.rss_bytes(), 0, 0
        with attacker.connect(acknowledges=False) as connection:
            with contextlib.suppress(OSError):
                while sent < CALLS_THAT_FILL and not connection.ended:
                    connection.send(b"".join(
                        h2_wire.frame(h2_wire.HEADERS, h2_wire.END_HEADERS,
                                      2 * (sent + i) + 1, headers)
                        for i in range(200)))
                    sent += 200
                    most = max(most, subject.rss_bytes() - before)
            expect_product(others)
            expect(connection.wait_for(lambda: connection.ended, 60),
                   f"{sent} calls are open on one connection")
        expect(most < (TRANSPORT_MIB + SLACK_MIB) * MIB,
               f"{most // MIB} MiB at {TRANSPORT_MIB} MiB allowed")
        expect_memory_back(subject, before)
    return f"{sent} calls, {most // MIB} MiB at most"


def resets_over_tls(binary, seed, scale):
    """Calls that are reset as soon as they have begun."""
    with tls_server(binary, seed, scale) as (subject, others, attacker):
        before = subject.rss_bytes()
        outcome = connection_attacks.rapid_resets(attacker)
        expect_product(others)
        expect_memory_back(subject, before)
    return outcome


CASES = (calls_of_headers_over_tls, resets_over_tls)
