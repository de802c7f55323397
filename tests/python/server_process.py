# SPDX-License-Identifier: Apache-2.0
"""A real qgemm_server on a free port, for the length of a with block."""

import os
import signal
import subprocess
import tempfile
import time

START_LIMIT_S = 60
STOP_LIMIT_S = 60


class ServerProcess:
    def __init__(self, binary, *flags, address="127.0.0.1:0"):
        self._folder = tempfile.TemporaryDirectory(prefix="qgemm-python-")
        self._port_file = os.path.join(self._folder.name, "port")
        self._process = subprocess.Popen([
            binary, f"--listen={address}", f"--port_file={self._port_file}",
            *flags])

    def __enter__(self):
        limit = time.monotonic() + START_LIMIT_S
        while not os.path.exists(self._port_file):
            if self._process.poll() is not None:
                raise RuntimeError(
                    f"server ended with {self._process.returncode}")
            if time.monotonic() > limit:
                self._process.kill()
                raise RuntimeError(f"no port after {START_LIMIT_S} s")
            time.sleep(0.02)
        with open(self._port_file, encoding="utf-8") as ports:
            self.address = f"127.0.0.1:{int(ports.readline())}"
        return self

    def stop(self):
        """Ends the server by SIGTERM and returns its exit code."""
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise

    def kill(self):
        """Ends the server by SIGKILL, as a crash would."""
        self._process.kill()
        self._process.wait(STOP_LIMIT_S)

    def __exit__(self, *_):
        if self._process.poll() is None:
            self.stop()
        self._folder.cleanup()
