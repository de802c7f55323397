# SPDX-License-Identifier: Apache-2.0
"""HAProxy with the very configuration that docs/operations.md gives
(ops/haproxy.cfg), in front of one server."""

import pathlib
import shutil
import socket
import subprocess
import tempfile
import time

CONFIGURATION = (pathlib.Path(__file__).resolve().parents[2] / "ops" /
                 "haproxy.cfg")
# The addresses of the file, which alone differ here.
FILE_BIND = "bind 127.0.0.1:50052"
FILE_SERVER = "server qgemm 127.0.0.1:50051"
START_LIMIT_S = 30


def is_installed():
    return shutil.which("haproxy") is not None


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Proxy:
    """For a with block. `address` and `target` are its own listener's."""

    def __init__(self, server_address):
        self._server = server_address
        self._folder = tempfile.TemporaryDirectory(prefix="qgemm-haproxy-")
        self.process = None
        self.address = None

    @property
    def target(self):
        return f"{self.address[0]}:{self.address[1]}"

    def __enter__(self):
        self.address = ("127.0.0.1", free_port())
        path = pathlib.Path(self._folder.name) / "haproxy.cfg"
        path.write_text(self._configuration(), encoding="utf-8")
        self.process = subprocess.Popen(
            ["haproxy", "-db", "-f", str(path)], stdout=subprocess.DEVNULL)
        limit = time.monotonic() + START_LIMIT_S
        while not self._listens():
            if self.process.poll() is not None or time.monotonic() > limit:
                self.__exit__()
                raise RuntimeError("haproxy does not listen")
            time.sleep(0.05)
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait()
        self._folder.cleanup()

    def _configuration(self):
        text = CONFIGURATION.read_text(encoding="utf-8")
        for old, (host, port) in ((FILE_BIND, self.address),
                                  (FILE_SERVER, self._server)):
            if text.count(old) != 1:
                raise RuntimeError(f"{CONFIGURATION} has no one '{old}'")
            text = text.replace(old, f"{old.rsplit(' ', 1)[0]} {host}:{port}")
        return text

    def _listens(self):
        try:
            socket.create_connection(self.address, 1).close()
            return True
        except OSError:
            return False
