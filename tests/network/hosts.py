# SPDX-License-Identifier: Apache-2.0
"""Hosts of a network of their own: network name spaces behind one bridge. Needs
root."""

import itertools
import os
import pathlib
import signal
import subprocess
import sys

PREFIX = "10.77.0"
STOP_LIMIT_S = 60
SLOW_LINK = pathlib.Path(__file__).with_name("slow_link.py")


def run(*command):
    subprocess.run(command, check=True)


class Host:
    """One name space with an address; processes in it end with the network.
    `slow` is (delay in ms, jitter in ms, share of frames lost) of its link."""

    def __init__(self, network, name, number, slow):
        self.space = network.space_of(name)
        self.address = f"{PREFIX}.{number}"
        self._switch = network.switch
        self._port = f"port{number}"
        self._processes = []
        run("ip", "netns", "add", self.space)
        if slow is None:
            run("ip", "-n", self._switch, "link", "add", self._port, "type",
                "veth", "peer", "name", "eth0", "netns", self.space)
        else:
            self._lay_slow_link(slow)
        run("ip", "-n", self._switch, "link", "set", self._port, "master",
            "bridge", "up")
        run("ip", "-n", self.space, "address", "add", f"{self.address}/24",
            "dev", "eth0")
        for link in ("lo", "eth0"):
            run("ip", "-n", self.space, "link", "set", link, "up")

    def _lay_slow_link(self, slow):
        ends = [f"qgemm{os.getpid() % 100000}{side}" for side in "ab"]
        process = subprocess.Popen(
            [sys.executable, SLOW_LINK, *ends, *map(str, slow)],
            stdout=subprocess.PIPE, text=True)
        self._processes.append(process)
        if process.stdout.readline() != "ready\n":
            raise RuntimeError("slow_link.py ended")
        run("ip", "link", "set", ends[0], "netns", self.space, "name", "eth0")
        run("ip", "link", "set", ends[1], "netns", self._switch, "name",
            self._port)

    def start(self, *command, **options):
        """A process in the name space; it is ip's own, by exec."""
        process = subprocess.Popen(
            ["ip", "netns", "exec", self.space, *map(str, command)], **options)
        self._processes.append(process)
        return process

    def run(self, *command):
        """Runs a program in the name space to its end. Returns its output."""
        return subprocess.run(
            ["ip", "netns", "exec", self.space, *map(str, command)],
            check=True, stdout=subprocess.PIPE, text=True).stdout

    def stop(self, process, number=signal.SIGTERM):
        """Signals a process and waits for its end. Returns its exit code."""
        process.send_signal(number)
        self._processes.remove(process)
        return process.wait(STOP_LIMIT_S)

    def cut_off(self):
        """Frames to and from it are lost; it is not told."""
        run("ip", "-n", self._switch, "link", "set", self._port, "nomaster")

    def mend(self):
        run("ip", "-n", self._switch, "link", "set", self._port, "master",
            "bridge")

    def close(self):
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()
        run("ip", "netns", "delete", self.space)


class Network:
    """For a with block."""

    def __init__(self):
        self.switch = self.space_of("switch")
        self._hosts = []
        self._numbers = itertools.count(1)

    @staticmethod
    def space_of(name):
        return f"qgemm-{os.getpid()}-{name}"

    def __enter__(self):
        run("ip", "netns", "add", self.switch)
        run("ip", "-n", self.switch, "link", "add", "bridge", "type", "bridge")
        run("ip", "-n", self.switch, "link", "set", "bridge", "up")
        return self

    def host(self, name, slow=None):
        self._hosts.append(Host(self, name, next(self._numbers), slow))
        return self._hosts[-1]

    def __exit__(self, *_):
        for host in self._hosts:
            host.close()
        run("ip", "netns", "delete", self.switch)
