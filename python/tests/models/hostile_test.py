# SPDX-License-Identifier: Apache-2.0
"""Tests that a file with mutated headers is read or refused: no other
exception, no tensor of a wrong size, no endless work.

QGEMM_MUTATIONS is the number of files of each kind, 1000 by default.
"""

import json
import os
import unittest

import numpy as np
from gguf import GGMLQuantizationType as Type

import checkpoints
from cases import FolderTest
from qgemm.loading import CheckpointError, open_checkpoint, plan_model
from qgemm.loading.gguf import TYPES
from qgemm.loading.safetensors import TYPE_BYTES
from qgemm.models.families import decoder_spec

MUTATIONS = int(os.environ.get("QGEMM_MUTATIONS", "1000"))
SEED = 20
WORDS = (b"\0", b"\xff", b"-1", b"1e9", b"[", b"{", b"\"", b"9" * 20, b"null",
         b"F16", b"\xff" * 8, b"\0\0\0\0\0\0\0\x80", b"\xf0\xff\xff\xff")
SIZES = {**{name: (1, size) for name, size in TYPE_BYTES.items()},
         **{kind.name: kind[1:] for kind in TYPES.values()}}


def mutate(random, data, header_bytes):
    """The data with one to four changes in its header, or cut short."""
    made = bytearray(data)
    for _ in range(random.integers(1, 5)):
        at = int(random.integers(0, max(1, min(header_bytes, len(made)))))
        change = random.integers(0, 16)
        word = WORDS[random.integers(0, len(WORDS))]
        if change == 0:
            del made[at:]
        elif change <= 4:
            made[at:at + int(random.integers(1, 16))] = b""
        elif change <= 6:
            made[at:at + len(word)] = word
        elif change <= 12:  # another number, in JSON that stays right
            at = next((i for i in range(at, min(header_bytes, len(made)))
                       if made[i] in b"0123456789"), None)
            if at is not None:
                made[at] = int(random.choice(list(b"0123456789")))
        elif made:
            made[at] ^= 1 << int(random.integers(0, 8))
    return bytes(made)


class ConfigTest(unittest.TestCase):

    def test_models_of_mutated_configs_are_made_or_refused(self):
        content = json.dumps({
            "model_type": "gemma3_text", "hidden_size": 64, "head_dim": 16,
            "num_hidden_layers": 4, "intermediate_size": 96,
            "sliding_window": 8, "rms_norm_eps": 1e-6,
            "rope_scaling": {
                "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 8192}}).encode()
        random = np.random.default_rng(SEED)
        made = refused = 0
        for _ in range(MUTATIONS):
            try:
                config = json.loads(mutate(random, content, len(content)))
                spec = decoder_spec(config)
            except (CheckpointError, UnicodeDecodeError, json.JSONDecodeError):
                refused += 1
                continue
            made += 1
            self.assertEqual(config["num_hidden_layers"], spec.layers)
        self.assertGreater(made, 0)
        self.assertGreater(refused, MUTATIONS // 10)


class HostileTest(FolderTest):

    def check(self, path, content, header_bytes):
        print(f"seed {SEED}, {MUTATIONS} files")
        random = np.random.default_rng(SEED)
        accepted = refused = 0
        for _ in range(MUTATIONS):
            with open(path, "wb") as file:
                file.write(mutate(random, content, header_bytes))
            try:
                checkpoint = open_checkpoint(self.folder)
                plan = plan_model(checkpoint, format="kbit4")
                refused += bool(plan.errors)
                accepted += not plan.errors
            except CheckpointError:
                refused += 1
                continue
            self.check_accounted(checkpoint, plan)
            for entry in plan.entries:
                self.check_layer(entry.layer)
        self.assertGreater(accepted, 0)
        self.assertGreater(refused, MUTATIONS // 10)

    def check_accounted(self, checkpoint, plan):
        used = {name for entry in plan.entries for name in entry.layer.tensors}
        self.assertEqual(set(checkpoint.tensors),
                         used | set(plan.skipped) | set(plan.errors))
        self.assertFalse(used & set(plan.skipped))

    def check_layer(self, layer):
        weight = getattr(layer, "weight", None)
        if weight is not None:
            elements, size = SIZES[weight.type]
            self.assertEqual((layer.n, layer.k), weight.shape)
            self.assertEqual(layer.n * layer.k // elements * size,
                             weight.nbytes)
        self.assertEqual((layer.n, layer.k), layer.decoded().shape)
        self.assertGreater(layer.n * layer.k, 0)

    def test_safetensors(self):
        path = self.path("m.safetensors")
        checkpoints.write_safetensors(path, {
            "a.weight": np.ones((4, 32), "<f4"), "a.bias": np.ones(4, "<f4"),
            "b.weight": np.ones((2, 64), "<f2")})
        with open(path, "rb") as file:
            content = file.read()
        self.check(path, content, 8 + int.from_bytes(content[:8], "little"))

    def test_gguf(self):
        path = self.path("m.gguf")
        array = np.ones((2, 256), np.float32)
        checkpoints.write_gguf(
            path, {"a.weight": array, "b.weight": array, "c.weight": array},
            {"a.weight": Type.Q4_0, "b.weight": Type.Q6_K})
        with open(path, "rb") as file:
            content = file.read()
        self.check(path, content, content.index(b"c.weight") + 8 + 24)

    def test_gptq(self):
        path = self.path("m.safetensors")
        tensors, _ = checkpoints.gptq_layer(
            "x", self.random, 16, 64, 32, 1, act_order=True)
        checkpoints.write_safetensors(path, tensors)
        checkpoints.write_json(self.folder, "config.json", {
            "quantization_config": {
                "quant_method": "gptq", "bits": 4, "group_size": 32}})
        with open(path, "rb") as file:
            content = file.read()
        self.check(path, content, 8 + int.from_bytes(content[:8], "little"))

    def test_index_and_config(self):
        checkpoints.write_safetensors(
            self.path("m.safetensors"), {"a.weight": np.ones((4, 32), "<f4")})
        for name, value in (
                ("model.safetensors.index.json",
                 {"weight_map": {"a.weight": "m.safetensors"}}),
                ("config.json",
                 {"architectures": ["XForCausalLM"], "quantization_config": {
                     "quant_method": "awq", "bits": 4, "group_size": 32}})):
            checkpoints.write_json(self.folder, name, value)
            with open(self.path(name), "rb") as file:
                content = file.read()
            with self.subTest(name):
                self.check(self.path(name), content, len(content))
            os.remove(self.path(name))


if __name__ == "__main__":
    unittest.main()
