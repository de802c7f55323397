# SPDX-License-Identifier: Apache-2.0
"""Tests the commands load-model and plan as a shell runs them."""

import json
import os
import subprocess
import sys
import unittest

import numpy as np

import checkpoints
from cases import ServerTest
from qgemm.loading.command import byte_count, format_bytes


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
