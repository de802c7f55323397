# SPDX-License-Identifier: Apache-2.0
"""Tests the commands load-model and plan as a shell runs them."""

import argparse
import json
import os
import subprocess
import sys
import unittest
from unittest import mock

import numpy as np

import checkpoints
from cases import ServerTest
from qgemm import Tls, client
from qgemm.loading import command
from qgemm.loading.command import byte_count, format_bytes


class SharedOptionsTest(unittest.TestCase):

    ENVIRONMENT = {
        "QGEMM_SERVER": "gpu1:50051", "QGEMM_TLS_CA": "ca.pem",
        "QGEMM_TLS_CLIENT_CERT": "client.pem", "QGEMM_TLS_CLIENT_KEY": "client.key",
        "QGEMM_TLS_SERVER_NAME": "gpu1", "QGEMM_TOKEN_FILE": "token"}

    def connected(self, environment, *arguments):
        """What a command gives client.connect."""
        parser = argparse.ArgumentParser()
        with mock.patch.dict(os.environ, environment, clear=True), \
                mock.patch.object(client, "connect") as connect:
            command.add_commands(parser.add_subparsers())
            command._connect(parser.parse_args(arguments))
        return connect.call_args

    def test_the_environment_sets_them(self):
        tls = Tls("ca.pem", "client.pem", "client.key", "gpu1")
        for name in ("plan", "load-model"):
            self.assertEqual(
                mock.call("gpu1:50051", tls=tls, token_file="token"),
                self.connected(self.ENVIRONMENT, name, "model"))

    def test_the_command_line_comes_first_and_empty_variables_are_none(self):
        self.assertEqual(
            mock.call("gpu2:1", tls=Tls("other.pem"), token_file=None),
            self.connected({**dict.fromkeys(self.ENVIRONMENT, ""),
                            "QGEMM_TLS_CA": "ca.pem"},
                           "plan", "model", "--server=gpu2:1", "--tls_ca=other.pem"))
        self.assertEqual(
            mock.call(command.DEFAULT_SERVER, tls=False, token_file=None),
            self.connected(dict.fromkeys(self.ENVIRONMENT, ""), "plan", "model"))


class CommandTest(ServerTest):

    def setUp(self):
        super().setUp()
        checkpoints.write_safetensors(self.path("model.safetensors"), {
            "a.weight": np.ones((8, 64), "<f2"), "a.bias": np.ones(8, "<f2"),
            "b.weight": np.zeros((8, 32), "<f2"), "norm.weight": np.ones(8, "<f2")})

    def qgemm(self, *arguments, server=True):
        environment = dict(os.environ)
        environment.pop("QGEMM_SERVER", None)
        if server:
            environment["QGEMM_SERVER"] = self.server.address
        return subprocess.run(
            [sys.executable, "-m", "qgemm", *arguments], env=environment,
            capture_output=True, text=True, check=False)

    def test_plan_needs_no_server(self):
        run = self.qgemm("plan", self.folder, "--format=kbit4", server=False)
        self.assertEqual((0, ""), (run.returncode, run.stderr))
        self.assertIn("F16 -> kbit4", run.stdout)
        self.assertIn("skipped: norm.weight: one row", run.stdout)
        self.assertIn("2 layers", run.stdout)

    def test_plan_tells_the_room_of_the_server(self):
        for arguments in (("plan", self.folder),
                          ("load-model", self.folder, "--dry-run")):
            run = self.qgemm(*arguments)
            self.assertIn(" free of ", run.stdout)
            self.assertEqual([], self.client.weights())

    def test_load_model_loads(self):
        run = self.qgemm(
            "load-model", self.folder, "--format=fp16", "--format=b.*=q4_0",
            "--rename=^(.)$=layer_\\1", "--prefix=m/", "--json")
        self.assertEqual((0, ""), (run.returncode, run.stderr))
        made = json.loads(run.stdout)
        self.assertEqual({"m/layer_a": "dense", "m/layer_b": "q4_0"},
                         {layer["name"]: layer["format"]
                          for layer in made["layers"]})
        self.assertEqual({"m/layer_a", "m/layer_b"}, {
            name for info in self.client.weights() for name in info.names})
        run = self.qgemm("load-model", self.folder, "--format=fp16")
        self.assertIn("1 were there already", run.stdout)

    def test_errors_are_named_and_wrong_usage_is_another_code(self):
        run = self.qgemm("load-model", self.path("absent"))
        self.assertEqual(1, run.returncode)
        self.assertIn("qgemm load-model: ", run.stderr)
        self.assertIn("absent: No such file", run.stderr)
        run = self.qgemm("plan", self.folder, "--format=b.*=ternary",
                         "--format=kbit9")
        self.assertEqual(1, run.returncode)
        self.assertIn("kbit9", run.stderr)
        for arguments in (("load-model",), ("plan", "x", "--rename=a"),
                          ("load-model", "x", "--memory=lots"),
                          ("load-model", "x", "--jobs=0"), ("load",)):
            self.assertEqual(2, self.qgemm(*arguments).returncode, arguments)

    def test_sizes(self):
        self.assertEqual(512 << 20, byte_count("512MiB"))
        self.assertEqual(16 * 10**9, byte_count("16GB"))
        self.assertEqual("4.0 KiB", format_bytes(4096))
        self.assertEqual("100 B", format_bytes(100))


if __name__ == "__main__":
    unittest.main()
