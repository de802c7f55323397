# SPDX-License-Identifier: Apache-2.0
"""Uploads that are cut off, by a proxy or with their server, and go on where they came
to. The proxy counts what is sent."""

import asyncio
import contextlib
import os
import re
import signal
import socket
import subprocess
import tempfile
import threading
import unittest

import numpy as np
import qgemm
from qgemm import aio

N, K = 1024, 4096
RETRY = qgemm.RetryPolicy(max_attempts=200, max_backoff=0.2)
READ_BYTES = 1 << 16


class Server:
    """A server on a port of its choice, with a state directory, that can be killed."""

    def __init__(self, folder):
        self._ports = os.path.join(folder, "ports")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._ports)
        self._process = subprocess.Popen(
            [os.environ["QGEMM_SERVER_BINARY"], "--backend=cpu",
             "--listen=127.0.0.1:0", f"--port_file={self._ports}",
             f"--state_dir={folder}/state"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        log = iter(self._process.stderr.readline, "")
        line = next((each for each in log if "serving on" in each), "")
        self.port = int(re.search(r"serving on 127.0.0.1:([0-9]+)", line)[1])
        self._drain = threading.Thread(target=lambda: [None for _ in log])
        self._drain.start()

    def end(self, number):
        self._process.send_signal(number)
        self._process.wait()
        self._drain.join()
        self._process.stderr.close()


class Proxy:
    """Passes connections on to `port`, and counts the bytes that clients send. Once
    they are `cut_after`, calls `on_cut` and closes all connections."""

    def __init__(self, port, cut_after, on_cut):
        self.port, self.sent = port, 0
        self._cut_after, self._on_cut = cut_after, on_cut
        self._lock = threading.Lock()
        self._open, self._sockets = [], []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        self._close_all()
        for thread in self._threads:
            thread.join()
        for each in (self._listener, *self._sockets):
            each.close()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.port))
            except OSError:
                client.close()
                continue
            with self._lock:
                self._open += [client, server]
                self._sockets += [client, server]
            for source, sink, counts in ((client, server, True),
                                         (server, client, False)):
                self._threads.append(threading.Thread(
                    target=self._pass, args=(source, sink, counts)))
                self._threads[-1].start()

    def _pass(self, source, sink, counts):
        with contextlib.suppress(OSError):
            while data := source.recv(READ_BYTES):
                sink.sendall(data)
                if counts and self._is_cut(len(data)):
                    self._on_cut(self)
                    self._close_all()
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _is_cut(self, count):
        with self._lock:
            before, self.sent = self.sent, self.sent + count
            return before < self._cut_after <= self.sent

    def _close_all(self):
        with self._lock:
            ends, self._open = self._open, []
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


class ResumeTest(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.server = Server(self.folder)
        self.addCleanup(lambda: self.server.end(signal.SIGTERM))
        self.w = np.random.default_rng().standard_normal((N, K)).astype(np.float32)
        self.cut_after = self.w.nbytes * 3 // 4

    def enterContext(self, context):
        """unittest has it since Python 3.11."""
        entered = context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)
        return entered

    def proxy(self, on_cut):
        proxy = Proxy(self.server.port, self.cut_after, on_cut)
        self.addCleanup(proxy.close)
        return proxy

    def restart(self, proxy):
        self.server.end(signal.SIGKILL)
        self.server = Server(self.folder)
        proxy.port = self.server.port

    def expect_resumed(self, proxy):
        """Some was sent a second time: what was on its way, a MiB in part; not all."""
        self.assertGreater(proxy.sent, self.cut_after)
        self.assertLess(proxy.sent, self.w.nbytes * 3 // 2)
        with qgemm.connect(f"127.0.0.1:{self.server.port}") as client:
            y = client.gemm("layer", np.eye(1, K, dtype=np.float32))
        rounded = np.abs(y[0] - self.w[:, 0]) <= 2.0**-7 * np.abs(self.w[:, 0])
        self.assertTrue(rounded.all())

    def test_a_cut_connection(self):
        proxy = self.proxy(lambda proxy: None)
        with qgemm.connect(proxy.address, retry=RETRY) as client:
            client.load("layer", self.w, format="bf16")
        self.expect_resumed(proxy)

    def test_a_server_that_is_killed(self):
        proxy = self.proxy(self.restart)
        with qgemm.connect(proxy.address, retry=RETRY) as client:
            client.load("layer", self.w, format="bf16")
        self.expect_resumed(proxy)

    def test_a_server_that_is_killed_with_asyncio(self):
        proxy = self.proxy(self.restart)

        async def load():
            async with await aio.connect(proxy.address, retry=RETRY) as client:
                await client.load("layer", self.w, format="bf16")

        asyncio.run(load())
        self.expect_resumed(proxy)

    def test_another_process_goes_on(self):
        proxy = self.proxy(lambda proxy: None)
        once = qgemm.RetryPolicy(max_attempts=1)
        with qgemm.connect(proxy.address, retry=once) as client:
            with self.assertRaises(qgemm.Unavailable):
                client.load("layer", self.w, format="bf16")
        told = []
        with qgemm.connect(proxy.address, retry=once) as client:
            client.load("layer", self.w, format="bf16", resume=True,
                        progress=lambda *bytes: told.append(bytes))
        self.assertEqual(told[-1], (self.w.nbytes, self.w.nbytes))
        self.expect_resumed(proxy)


if __name__ == "__main__":
    unittest.main()
