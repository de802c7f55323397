# SPDX-License-Identifier: Apache-2.0
"""Starts an installed qgemm_server, for notebooks and tests."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
import time
from typing import Any, Optional

import grpc

from qgemm import client, errors

_SERVING = b"\x08\x01"  # grpc.health.v1.HealthCheckResponse: status = SERVING
_POLL_SECONDS = 0.02
_LOG_BYTES = 2000


def serve(*flags: str, binary: Optional[str] = None, start_timeout: float = 60.0,
          stop_timeout: float = 30.0) -> "Server":
    """Starts a server on a Unix socket in a folder of its own and returns once it is
    healthy. It is stopped by `stop`, at the end of a with block, or when Python exits.

    flags: of qgemm_server, such as "--backend=cpu". binary: its path; by default that
    of the environment's QGEMM_SERVER_BINARY, else qgemm_server on PATH.

    FileNotFoundError: there is none. RuntimeError: it ended, or was not healthy in
    time; the message has the end of its log."""
    path = binary or os.environ.get("QGEMM_SERVER_BINARY") or shutil.which(
        "qgemm_server")
    if path is None:
        raise FileNotFoundError("there is no qgemm_server on PATH; install one, or "
                                "give binary=")
    server = Server(path, flags, stop_timeout)
    try:
        server.wait(start_timeout)
    except BaseException:
        server.stop()
        raise
    return server


class Server:
    """A server that this process started."""

    def __init__(self, path: str, flags: tuple[str, ...], stop_timeout: float) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="qgemm-")
        self.address = f"unix:{self._folder.name}/socket"
        self._stop_timeout = stop_timeout
        self._log = os.path.join(self._folder.name, "log")
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                [path, f"--listen={self.address}", *flags], stdout=log, stderr=log,
                stdin=subprocess.DEVNULL, start_new_session=True)  # apart from ^C
        atexit.register(self.stop)

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def connect(self, **options: Any) -> client.Client:
        """qgemm.connect to this server."""
        return client.connect(self.address, **options)

    @property
    def log(self) -> str:
        """The server's log so far."""
        with open(self._log, encoding="utf-8", errors="replace") as file:
            return file.read()

    def wait(self, timeout: float) -> None:
        """Returns once the server's health is SERVING."""
        deadline = time.monotonic() + timeout
        with grpc.insecure_channel(self.address) as channel:
            check: Any = channel.unary_unary("/grpc.health.v1.Health/Check")
            while True:
                if self._process.poll() is not None:
                    raise RuntimeError(f"qgemm_server ended with "
                                       f"{self._process.returncode}: {self._end()}")
                try:
                    if check(b"", timeout=1.0, wait_for_ready=True) == _SERVING:
                        return
                except grpc.RpcError as failed:
                    reason = errors.of_call(failed).message
                else:
                    reason = "NOT_SERVING"
                if time.monotonic() > deadline:
                    raise RuntimeError(f"qgemm_server is not healthy after "
                                       f"{timeout} s: {reason}: {self._end()}")
                time.sleep(_POLL_SECONDS)

    def stop(self) -> int:
        """Drains and ends the server, and returns its exit code."""
        atexit.unregister(self.stop)
        if self._process.poll() is None:
            self._process.terminate()
        try:
            return self._process.wait(self._stop_timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()
        finally:
            self._folder.cleanup()

    def _end(self) -> str:
        return self.log[-_LOG_BYTES:].strip() or "it logged nothing"
