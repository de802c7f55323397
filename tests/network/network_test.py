# SPDX-License-Identifier: Apache-2.0
"""Three servers behind proxies while servers come and go and links fail. A stock
client with the documented retries sees no failed call."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import hosts
import layer
from servers import HaProxy, Nginx, Server, wait_for

LAYERS = [f"model/layer{i}" for i in range(4)]
ALL_LAYERS = f"model/layer:{len(LAYERS)}"
DEPLOYMENT = pathlib.Path(__file__).resolve().parents[2] / "docs/deployment.md"
CLI, LOADTEST, CPP_CALLER = os.environ["QGEMM_CLIENTS"].split()
CALLER = pathlib.Path(__file__).with_name("caller.py")
OWNERS = ("server", "proxy", "client")  # of certificates
SERVICE = "qgemm.qgemm.svc.cluster.local"  # which HAProxy's file names


def openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def make_certificates(folder, addresses):
    """A CA, and a folder for each owner with tls.crt, tls.key and ca.crt."""
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    ca = folder / "ca"
    ca.mkdir()
    openssl("req", "-x509", *key, "-days", 2, "-subj", "/CN=test CA",
            "-keyout", ca / "ca.key", "-out", ca / "ca.crt")
    names = folder / "names"
    names.write_text(f"subjectAltName=DNS:{SERVICE}," + ",".join(
        f"IP:{address}" for address in addresses), encoding="utf-8")
    for name in OWNERS:
        own = folder / name
        own.mkdir()
        (own / "ca.crt").write_bytes((ca / "ca.crt").read_bytes())
        openssl("req", "-new", *key, "-subj", f"/CN={name}",
                "-keyout", own / "tls.key", "-out", own / "csr")
        openssl("x509", "-req", "-in", own / "csr", "-days", 2,
                "-CA", ca / "ca.crt", "-CAkey", ca / "ca.key",
                "-CAcreateserial", "-extfile", names, "-out", own / "tls.crt")


class Calls:
    """A client on a host that calls until it is told to stop, or so often."""

    def __init__(self, host, target, layers, *options, calls, until=None):
        command = [sys.executable, CALLER, target, layers, f"--calls={calls}",
                   *options]
        if until is not None:
            command.append(f"--until={until}")
        self._host = host
        self._process = host.start(*command, stdout=subprocess.PIPE, text=True)

    def ends(self):
        """How many calls had which end."""
        return json.loads(self._process.communicate()[0])


class CppCalls:
    """The same of our client, which is given the targets' layers."""

    def __init__(self, host, targets, tls, until, calls):
        self._process = host.start(
            CPP_CALLER, targets, tls, str(calls), until, *LAYERS,
            stdout=subprocess.PIPE, text=True)

    def ends(self):
        """As Calls has them; the products are layer.py's."""
        outcome = json.loads(self._process.communicate()[0])
        for name, c in outcome["products"].items():
            if not layer.is_product(name, layer.cpp_activations(),
                                    bytes.fromhex(c)):
                raise AssertionError(f"{name}: a wrong product")
        return outcome["ends"]


class Scene(unittest.TestCase):
    """Three servers, a client, and HAProxy beside them."""

    layers = ()  # of every server from its start
    edits = ()   # of HAProxy's file

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(
            tempfile.TemporaryDirectory(prefix="qgemm-network-")))
        cls.network = cls.enterClassContext(hosts.Network())
        cls.client = cls.network.host("client")
        cls.near = cls.network.host("near")
        cls.far = cls.network.host("far", slow=(10, 5, 0.01))
        places = [cls.network.host(f"server{number}") for number in range(3)]
        make_certificates(cls.folder, [host.address for host in (
            cls.near, cls.far, *places)])
        cls.servers = []
        for place in places:
            cls.servers.append(Server(place, os.environ["QGEMM_SERVER"],
                                      cls.folder, cls.layers,
                                      cls.folder / "server"))
            cls.servers[-1].start()
        cls.proxy = cls.haproxy(cls.near)

    @classmethod
    def haproxy(cls, host):
        return HaProxy(host, cls.servers, cls.folder, cls.folder / "proxy",
                       *cls.edits)

    def calls(self, *options, proxy=None, layers=ALL_LAYERS, **arguments):
        """Through HAProxy, with the client's certificate."""
        return Calls(self.client, (proxy or self.proxy).target, layers,
                     f"--tls={self.folder / 'client'}", *options, **arguments)

    def assert_all_answered(self, ends, least):
        self.assertEqual({"ok"}, set(ends), ends)
        self.assertGreaterEqual(ends["ok"], least)


class ReplicasTest(Scene):
    """The layers are on every server."""

    layers = LAYERS

    def cpp_calls(self, targets, until, calls):
        return CppCalls(self.client, targets, self.folder / "client", until,
                        calls)

    def test_our_programs_reach_a_server(self):
        target = self.servers[0].tls_address
        flags = [f"--server={target}"] + [
            f"--tls_{flag}={self.folder / 'client' / name}"
            for flag, name in (("ca", "ca.crt"), ("client_cert", "tls.crt"),
                               ("client_key", "tls.key"))]
        listed = self.client.run(CLI, "list", *flags)
        for name in LAYERS:
            self.assertIn(name, listed)
        self.assertIn("verify", self.client.run(
            LOADTEST, *flags, "--synthetic=64x64",
            "--format=kbit4", "--duration=1s", "--verify=sample"))

    def test_no_call_fails_through_kills_drains_and_restarts(self):
        """Neither of a stock client nor of ours."""
        stop = self.folder / "stop"
        calls = self.calls(calls=10_000, until=stop)
        ours = self.cpp_calls(self.proxy.target, stop, 10_000)
        first, second, third = self.servers
        first.kill()
        first.restart()
        self.assertEqual(0, second.end())
        second.start()
        for server in (third, first, second):
            self.assertEqual(0, server.end())
            server.start()
        third.kill()
        third.restart()
        stop.touch()
        for ends in (calls.ends(), ours.ends()):
            self.assert_all_answered(ends, 10_000)
            print(f"{ends['ok']} calls", end=" ")

    def test_no_call_of_a_client_of_three_servers_fails(self):
        """One is killed and one drains. A client would meet them before they
        have their layers again, so that they stay away meanwhile."""
        gone = self.folder / "gone"
        calls = self.cpp_calls(
            ",".join(server.tls_address for server in self.servers), gone, 2000)
        first, second, _ = self.servers
        first.kill()
        self.assertEqual(0, second.end())
        gone.touch()
        self.assert_all_answered(calls.ends(), 2000)
        first.start()
        second.start()

    def test_no_call_fails_over_slow_and_lossy_links(self):
        """Both links of the proxy: to its clients and to its servers."""
        far = self.haproxy(self.far)
        self.assert_all_answered(self.calls(proxy=far, calls=1000).ends(), 1000)
        self.assert_all_answered(
            self.calls("--stream", proxy=far, calls=100).ends(), 100)

    def test_no_call_fails_when_a_server_is_cut_off(self):
        calls = self.calls(calls=2000, until=self.folder / "whole_again")
        self.servers[0].host.cut_off()
        # Calls that were on their way to it end when TCP gives up.
        self.assert_all_answered(self.calls(calls=1000).ends(), 1000)
        self.servers[0].host.mend()
        (self.folder / "whole_again").touch()
        self.assert_all_answered(calls.ends(), 2000)

    def test_streams_pass(self):
        self.assert_all_answered(self.calls("--stream", calls=300).ends(), 300)

    def test_nobody_passes_without_a_certificate(self):
        without = self.folder / "without"
        without.mkdir()
        (without / "ca.crt").write_bytes(
            (self.folder / "client" / "ca.crt").read_bytes())
        ends = Calls(self.client, self.proxy.target, ALL_LAYERS,
                     f"--tls={without}", "--deadline=2", "--threads=1",
                     calls=1).ends()
        self.assertNotIn("ok", ends)

    def test_haproxy_is_ready_while_a_server_is(self):
        for server in self.servers:
            server.end()
        wait_for(lambda: self.proxy.readiness() == 503, "nobody behind HAProxy")
        for server in self.servers:
            server.start()
        wait_for(lambda: self.proxy.readiness() == 200, "servers again")

    def test_no_call_through_nginx_fails_when_a_server_is_killed(self):
        """It stays away: nginx would not wait until it has its layers."""
        nginx = Nginx(self.network.host("nginx"), self.servers, self.folder)
        killed = self.folder / "killed"
        calls = Calls(self.client, nginx.target, ALL_LAYERS, calls=2000,
                      until=killed)
        self.servers[0].kill()
        killed.touch()
        self.assert_all_answered(calls.ends(), 2000)
        self.assert_all_answered(
            Calls(self.client, nginx.target, ALL_LAYERS, "--stream",
                  calls=300).ends(), 300)
        self.servers[0].start()


def documented_routing():
    """Edits of HAProxy's file that docs/deployment.md gives: the frontend's lines and
    the backend's."""
    blocks = re.findall(r"```haproxy\n(.*?)```",
                        DEPLOYMENT.read_text(encoding="utf-8"), re.DOTALL)
    frontend, backend = blocks
    anchor = "    default_backend qgemm\n"
    return ((anchor, frontend + anchor), ("    balance leastconn\n", backend))


class RoutingTest(Scene):
    """Each model is on one server, by the name inside the body."""

    edits = documented_routing()

    def test_a_model_stays_together(self):
        models = [f"model{i}" for i in range(8)]
        layers = ",".join(f"{model}/layer:3" for model in models)
        ends = self.calls("--upload", layers=layers, calls=500).ends()
        self.assert_all_answered(ends, 500)
        self.assert_all_answered(
            self.calls("--stream", layers=layers, calls=50).ends(), 50)
        held = [server.names() for server in self.servers]
        self.assertEqual(sorted(f"{model}/layer{i}" for model in models
                                for i in range(3)), sorted(sum(held, [])))
        homes = {model: [number for number, names in enumerate(held)
                         if any(name.startswith(f"{model}/") for name in names)]
                 for model in models}
        self.assertEqual({1}, {len(home) for home in homes.values()}, homes)
        self.assertGreater(len(set(sum(homes.values(), []))), 1, homes)


if __name__ == "__main__":
    unittest.main()
