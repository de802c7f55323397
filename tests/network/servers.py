# SPDX-License-Identifier: Apache-2.0
"""Servers and proxies on hosts of a network, with the files of ops/."""

import json
import pathlib
import signal
import subprocess
import time

import layer

OPS = pathlib.Path(__file__).resolve().parents[2] / "ops"
LIMIT_S = 60
GRPC_PORT, TLS_PORT = 50051, 50052
# Of HAProxy's file in the tests, below.
PROXY_PORT, PROXY_HEALTH_PORT, NGINX_PORT = 8443, 8404, 50053

RESTART_S = 2  # RestartSec= of the unit

# For nginx, which is meant to be on the servers' host: passes on what comes from
# others, as it is. It ends with the server.
FORWARDER = """
defaults
    mode tcp
    timeout connect 2s
    timeout client 10m
    timeout server 10m
listen forwarder
    bind {address}:{port}
    server server 127.0.0.1:{port}
"""


# The proxy's certificate, a client behind it, and who uploads over the Unix socket.
RIGHTS = {"rights": ["compute", "load"], "names": [""]}
ACCESS = {"clients": [
    {"id": "proxy", "match": [{"cn": "proxy"}], "proxy": True},
    {"id": "client", "match": [{"cn": "client"}], **RIGHTS},
    {"id": "loader", "match": [{"uid": 0}], **RIGHTS},
]}


def wait_for(ask, what):
    limit = time.monotonic() + LIMIT_S
    while not ask():
        if time.monotonic() > limit:
            raise RuntimeError(f"{what}: not after {LIMIT_S} s")
        time.sleep(0.05)


def replaced(text, *pairs):
    """The text with each first of a pair, which it has once, as the second."""
    for old, new in pairs:
        if text.count(old) != 1:
            raise RuntimeError(f"the file has no one '{old}'")
        text = text.replace(old, new)
    return text


class Server:
    """qgemm_server on a host, ready once it has its layers, if it needs any."""

    def __init__(self, host, binary, folder, layers, tls):
        self.host = host
        self.tls_address = f"{host.address}:{TLS_PORT}"
        self._binary = binary
        self._layers = layers
        self._folder = pathlib.Path(folder) / host.space
        self._folder.mkdir()
        self.target = f"unix:{self._folder}/socket"
        (self._folder / "forwarder.cfg").write_text(FORWARDER.format(
            address=host.address, port=GRPC_PORT), encoding="utf-8")
        self._tls = self._tls_flags(tls)
        self._haproxy(OPS / "kubernetes" / "status.cfg")

    def _tls_flags(self, certificates):
        table = self._folder / "access.json"
        table.write_text(json.dumps(ACCESS), encoding="utf-8")
        return (f"--listen=tls:{self.tls_address}", f"--access_table={table}",
                f"--tls_cert={certificates}/tls.crt",
                f"--tls_key={certificates}/tls.key",
                f"--tls_client_ca={certificates}/ca.crt")

    def start(self):
        """Returns when it has its layers."""
        with open(self._folder / "log", "a", encoding="utf-8") as log:
            self._server = self.host.start(
                self._binary, f"--listen=127.0.0.1:{GRPC_PORT},{self.target}",
                "--metrics_listen=127.0.0.1:9090", "--backend=cpu",
                "--threads=1", "--drain_delay=4s", "--drain_timeout=10s",
                *(f"--ready_names={name}" for name in self._layers[-1:]),
                *self._tls,
                stdout=log, stderr=log)
        layer.wait_for_server(self.target)
        self._forwarder = self._haproxy(self._folder / "forwarder.cfg")
        layer.upload(self.target, self._layers)

    def restart(self):
        """As the unit does after a failure."""
        time.sleep(RESTART_S)
        self.start()

    def kill(self):
        self.host.stop(self._forwarder, signal.SIGKILL)
        self.host.stop(self._server, signal.SIGKILL)

    def end(self):
        """SIGTERM. Returns the exit code."""
        code = self.host.stop(self._server)
        self.host.stop(self._forwarder, signal.SIGKILL)
        return code

    def names(self):
        return layer.names_at(self.target)

    def _haproxy(self, path):
        return self.host.start("haproxy", "-db", "-q", "-f", path)


class HaProxy:
    """ops/kubernetes/haproxy.cfg on a host, its servers' addresses given."""

    def __init__(self, host, servers, folder, tls, *edits):
        text = (OPS / "kubernetes" / "haproxy.cfg").read_text(encoding="utf-8")
        lines = text.splitlines(keepends=True)
        template = next(line for line in lines
                        if line.startswith("    server-template "))
        edits = [(template, "".join(
            f"    server {number} {server.tls_address}\n"
            for number, server in enumerate(servers))), *edits]
        text = replaced(text, *edits)
        text = text.replace("/etc/haproxy/tls", str(tls))
        path = pathlib.Path(folder) / f"{host.space}.cfg"
        path.write_text(text, encoding="utf-8")
        self.host = host
        self.target = f"{host.address}:{PROXY_PORT}"
        self._process = host.start("haproxy", "-db", "-q", "-f", path)
        wait_for(lambda: self.readiness() == 200, "a server behind HAProxy")

    def readiness(self):
        """HTTP status of its own /readyz; None if it does not answer."""
        script = ("import http.client as h; c = h.HTTPConnection("
                  f"'127.0.0.1', {PROXY_HEALTH_PORT}, timeout=5); "
                  "c.request('GET', '/readyz'); print(c.getresponse().status)")
        answer = subprocess.run(
            ["ip", "netns", "exec", self.host.space, "python3", "-c", script],
            capture_output=True, text=True, check=False)
        return int(answer.stdout) if answer.returncode == 0 else None


class Nginx:
    """ops/nginx.conf on a host, its addresses given."""

    def __init__(self, host, servers, folder):
        line = f"server 127.0.0.1:{GRPC_PORT} max_fails=1 fail_timeout=2s;"
        lines = "".join(
            line.replace("127.0.0.1", server.host.address) + "\n"
            for server in servers)
        text = replaced(
            (OPS / "nginx.conf").read_text(encoding="utf-8"), (line, lines),
            (f"listen 127.0.0.1:{NGINX_PORT}",
             f"listen {host.address}:{NGINX_PORT}"))
        path = pathlib.Path(folder) / "nginx.conf"
        path.write_text(text, encoding="utf-8")
        self.host = host
        self.target = f"{host.address}:{NGINX_PORT}"
        self._process = host.start(
            "nginx", "-c", path, "-g",
            f"daemon off; pid {folder}/nginx.pid; error_log {folder}/nginx.log;")
