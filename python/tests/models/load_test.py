# SPDX-License-Identifier: Apache-2.0
"""Tests that a loaded checkpoint answers rightly: every format of files, layer
by layer, against fp64 arithmetic on what the file means."""

import unittest

import numpy as np
from gguf import GGMLQuantizationType as Type

import checkpoints
import qgemm
from cases import ServerTest
from qgemm.loading import open_checkpoint
from qgemm.loading.plan import make_plan, Options

# Roundings of a product in fp16, relative to the sum of |a * w|: the weight as
# an operand twice (docs/formats.md), and the sum. Activations are fp16.
UNIT = 3 * 2.0 ** -11


class LoadTest(ServerTest):

    def check(self, path, **options):
        """Loads, and compares each layer that is kept with fp64."""
        loaded = qgemm.load_model(self.client, path, **options)
        plan = make_plan(open_checkpoint(path), Options(**options))
        self.assertEqual([e.name for e in plan.entries], list(loaded.layers))
        for entry in plan.entries:
            layer, info = entry.layer, loaded.layers[entry.name]
            self.assertEqual((layer.n, layer.k), (info.n, info.k))
            w = layer.decoded().astype(np.float64)
            bias = 0 if layer.bias is None else layer.bias.float32()
            self.check_product(entry.name, w, bias)
        return loaded

    def check_product(self, name, w, bias):
        a = self.random.standard_normal((3, w.shape[1])).astype("<f2")
        want = a.astype(np.float64) @ w.T + bias
        bound = UNIT * (np.abs(a.astype(np.float64)) @ np.abs(w).T + np.abs(bias))
        got = self.client.gemm(name, a, dtype="fp32")
        self.assertTrue((np.abs(got - want) <= bound).all(),
                        f"{name}: {np.max(np.abs(got - want) / bound)}")

    def write_config(self, **config):
        checkpoints.write_json(self.folder, "config.json", config)

    def test_a_directory_of_floats_with_biases(self):
        normal = self.random.standard_normal
        checkpoints.write_safetensors(self.path("model.safetensors"), {
            "a.weight": normal((24, 64)).astype("<f2"),
            "a.bias": normal(24).astype("<f2"),
            "b.weight": normal((40, 33)).astype("<f2")})
        loaded = self.check(self.folder, prefix="m/")
        self.assertTrue(loaded.layers["m/a"].has_bias)
        self.assertEqual(0, loaded.deduplicated)
        again = self.check(self.folder, prefix="again/")
        self.assertEqual(2, again.deduplicated)
        self.assertEqual(loaded.resident_bytes, again.resident_bytes)

    def test_gptq_with_and_without_act_order(self):
        for version, act_order in ((1, False), (2, False), (1, True)):
            tensors, _ = checkpoints.gptq_layer(
                "x", self.random, 16, 128, 32, version, act_order)
            tensors["x.bias"] = self.random.standard_normal(16).astype("<f2")
            checkpoints.write_safetensors(
                self.path("model.safetensors"), tensors)
            self.write_config(quantization_config={
                "quant_method": "gptq", "bits": 4, "group_size": 32,
                "checkpoint_format": "gptq_v2" if version == 2 else "gptq"})
            loaded = self.check(self.folder)
            self.assertEqual("int4", loaded.layers["x"].format)

    def test_awq(self):
        tensors, _ = checkpoints.awq_layer("x", self.random, 24, 128, 64)
        checkpoints.write_safetensors(self.path("model.safetensors"), tensors)
        self.write_config(quantization_config={
            "quant_method": "awq", "bits": 4, "group_size": 64})
        loaded = self.check(self.folder)
        self.assertEqual("int4", loaded.layers["x"].format)

    def test_gguf_in_fp16_is_what_the_blocks_mean(self):
        array = self.random.standard_normal((8, 256)).astype(np.float32)
        kinds = {f"{kind.name}.weight": kind for kind in (
            Type.Q4_0, Type.Q8_0, Type.Q4_K, Type.Q5_K, Type.Q6_K, Type.F16)}
        checkpoints.write_gguf(self.path("m.gguf"),
                               {name: array for name in kinds}, kinds)
        loaded = self.check(self.path("m.gguf"), format="fp16")
        self.assertEqual("q4_0", loaded.layers["Q4_0"].format)
        self.assertEqual("dense", loaded.layers["Q6_K"].format)

    def test_quantized_layers_are_those_of_a_load_in_that_format(self):
        w = self.random.standard_normal((32, 64)).astype(np.float32)
        checkpoints.write_safetensors(self.path("m.safetensors"),
                                      {"a.weight": w})
        for format in ("kbit4", "kbit2", "q4_0", "int4", "ternary", "bf16"):
            by_model = qgemm.load_model(
                self.client, self.path("m.safetensors"), format=format)
            by_hand = self.client.load("by_hand", w, format=format)
            self.assertEqual(by_hand.weights.id, by_model.layers["a"].id)

    def test_the_plan_knows_what_stays_resident(self):
        w = self.random.standard_normal((256, 512)).astype("<f2")
        checkpoints.write_safetensors(self.path("m.safetensors"),
                                      {"a.weight": w})
        for format in ("kbit2", "kbit5", "q4_0", "int4", "ternary", "fp16"):
            plan = qgemm.plan_model(self.path("m.safetensors"), format=format)
            loaded = qgemm.load_model(
                self.client, self.path("m.safetensors"), format=format)
            # A backend may pad and repack.
            self.assertLess(
                abs(loaded.resident_bytes / plan.resident_bytes - 1), 0.1,
                format)

    def test_nothing_is_loaded_if_a_tensor_cannot_be(self):
        checkpoints.write_safetensors(self.path("m.safetensors"), {
            "a.weight": np.ones((4, 64), "<f2"),
            "b.weight": np.ones((4, 63), "<f2")})
        with self.assertRaisesRegex(qgemm.CheckpointError, "k = 63"):
            qgemm.load_model(self.client, self.path("m.safetensors"),
                             format="kbit4")
        self.assertEqual([], self.client.weights())

    def test_memory_is_bounded_and_progress_told(self):
        array = self.random.standard_normal((64, 256)).astype(np.float32)
        names = [f"{i}.weight" for i in range(6)]
        checkpoints.write_gguf(
            self.path("m.gguf"), {name: array for name in names},
            {name: Type.Q8_0 for name in names})
        told = []
        loaded = qgemm.load_model(
            self.client, self.path("m.gguf"), jobs=3, memory_bytes=1,
            progress=lambda name, done, total: told.append((done, total)))
        self.assertEqual([(i, 6) for i in range(1, 7)], told)
        self.assertEqual(6, len(loaded.layers))
        self.assertEqual(5, loaded.deduplicated)


if __name__ == "__main__":
    unittest.main()
