# SPDX-License-Identifier: Apache-2.0
"""The server that is attacked: a process, its listeners, and its figures."""

import contextlib
import dataclasses
import os
import re
import resource
import signal
import subprocess
import tempfile
import time
import urllib.request

START_LIMIT_S = 60
STOP_LIMIT_S = 60
SCRAPE_LIMIT_S = 20
MIB = 1 << 20
# A line of the server's log: severity, time, place.
LOG_LINE = re.compile(r"[IWEF] \d{4}-\d\d-\d\dT[\d:.]+Z \S+\] ")


def set_niceness(value):
    """Clients and attackers are on other machines than a server: they have
    their own processors, as far as the system lets a root user say so."""
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, value)


@dataclasses.dataclass(frozen=True)
class Addresses:
    """Where a server listens."""
    tcp: tuple       # (host, port)
    unix: str        # a path
    metrics: tuple

    @property
    def tcp_target(self):
        return f"{self.tcp[0]}:{self.tcp[1]}"

    @property
    def unix_target(self):
        return f"unix:{self.unix}"


@dataclasses.dataclass(frozen=True)
class Figures:
    """What a server holds at one moment."""
    rss_bytes: int
    accounted_bytes: int   # weights, and memory for operands
    threads: int
    descriptors: int
    weights_bytes: int
    layers: int
    queued: int

    @property
    def beyond_accounts(self):
        return self.rss_bytes - self.accounted_bytes

    def __str__(self):
        return (f"rss {self.rss_bytes / MIB:.0f} MiB, of which accounted "
                f"{self.accounted_bytes / MIB:.0f}, {self.threads} threads, "
                f"{self.descriptors} descriptors, {self.layers} layers")


class Subject:
    """A real qgemm_server with the cpu backend, for a with block.

    flags: added to the command line. limits: {resource.RLIMIT_…: value}, soft
    and hard, for the server alone.
    """

    def __init__(self, binary, flags=(), limits=None):
        self._folder = tempfile.TemporaryDirectory(prefix="qgemm-hostile-")
        folder = self._folder.name
        os.chmod(folder, 0o755)  # attackers run as another user
        self.log_path = os.path.join(folder, "log")
        self._port_file = os.path.join(folder, "port")
        self._socket = os.path.join(folder, "socket")
        self.arguments = [
            binary, "--backend=cpu", "--listen=127.0.0.1:0",
            f"--listen=unix:{self._socket}", "--metrics_listen=127.0.0.1:0",
            f"--port_file={self._port_file}", *flags]
        self._limits = limits or {}
        self.process = None
        self.addresses = None
        self.tcp_addresses = []  # in the order of their flags

    def __enter__(self):
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                self.arguments, stdout=log, stderr=subprocess.STDOUT,
                umask=0,  # attackers of another user reach the Unix socket
                preexec_fn=self._begin,
                start_new_session=True)
        try:
            self._wait_until_serving()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *_):
        self.kill()
        self._folder.cleanup()

    def _begin(self):
        set_niceness(0)
        for name, value in self._limits.items():
            resource.setrlimit(name, (value, value))

    def _wait_until_serving(self):
        limit = time.monotonic() + START_LIMIT_S
        while True:
            metrics = re.search(r"metrics on port (\d+)", self.log())
            if metrics and os.path.exists(self._port_file):
                break
            if not self.alive:
                raise RuntimeError(f"the server ended with "
                                   f"{self.process.returncode}: {self.log()}")
            if time.monotonic() > limit:
                raise RuntimeError(f"no port after {START_LIMIT_S} s")
            time.sleep(0.02)
        with open(self._port_file, encoding="utf-8") as ports:
            self.tcp_addresses = [("127.0.0.1", int(port)) for port in ports]
        self.addresses = Addresses(self.tcp_addresses[0], self._socket,
                                   ("127.0.0.1", int(metrics.group(1))))

    @property
    def alive(self):
        return self.process.poll() is None

    def kill(self):
        if self.alive:
            self.process.kill()
            self.process.wait()

    def stop(self):
        """Ends the server by SIGTERM: (exit code, seconds that it took)."""
        start = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(STOP_LIMIT_S)
        return code, time.monotonic() - start

    def log(self, start=0):
        """The log from a position on."""
        with open(self.log_path, "rb") as log:
            log.seek(start)
            return log.read().decode(errors="backslashreplace")

    def log_bytes(self):
        return os.path.getsize(self.log_path)

    def foreign_log_lines(self, start=0):
        """Lines that the server's logger does not write."""
        text = self.log(start)
        lines = [line for line in text.splitlines()
                 if not LOG_LINE.match(line)]
        return lines + [line for line in text.splitlines() if "\x1b" in line]

    def launches(self):
        """{upper bound in s: launches that took no longer}."""
        bucket = re.compile(r'qgemm_launch_kernel_seconds_bucket{.*le="(.+?)"')
        counts = {}
        for series, count in self.scrape().items():
            found = bucket.match(series)
            if found:
                bound = float(found.group(1))
                counts[bound] = counts.get(bound, 0) + count
        return counts

    def scrape(self):
        """{series: value} of the metrics page."""
        host, port = self.addresses.metrics
        with urllib.request.urlopen(f"http://{host}:{port}/metrics",
                                    timeout=SCRAPE_LIMIT_S) as page:
            lines = page.read().decode().splitlines()
        samples = (line.rsplit(" ", 1) for line in lines
                   if line and not line.startswith("#"))
        return {series: float(value) for series, value in samples}

    def rss_bytes(self):
        status = self._proc("status")
        return int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) * 1024

    def cpu_s(self):
        fields = self._proc("stat").rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _proc(self, name):
        path = f"/proc/{self.process.pid}/{name}"
        with open(path, encoding="utf-8") as file:
            return file.read()

    def figures(self):
        samples = self.scrape()
        weights = int(samples["qgemm_weights_bytes"])
        staging = int(samples["qgemm_staging_bytes"])
        threads = int(re.search(r"Threads:\s+(\d+)", self._proc("status"))
                      .group(1))
        return Figures(
            rss_bytes=self.rss_bytes(),
            accounted_bytes=weights + staging,
            threads=threads,
            descriptors=len(os.listdir(f"/proc/{self.process.pid}/fd")),
            weights_bytes=weights,
            layers=int(samples["qgemm_weights_layers"]),
            queued=int(samples["qgemm_queue_requests"]))
