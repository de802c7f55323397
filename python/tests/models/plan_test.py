# SPDX-License-Identifier: Apache-2.0
"""Tests that a plan accounts for every tensor, and by which rules."""

import unittest

import numpy as np
from gguf import GGMLQuantizationType as Type

import checkpoints
from cases import FolderTest
from qgemm.loading import open_checkpoint, plan_model

BLOCK = "model.layers.0."


class PlanTest(FolderTest):

    def plan(self, tensors, config=None, **options):
        """The plan of fp16 tensors of zeros, by their shapes."""
        arrays = {name: np.zeros(shape, "<f2")
                  for name, shape in tensors.items()}
        checkpoints.write_safetensors(self.path("model.safetensors"), arrays)
        checkpoints.write_json(self.folder, "config.json", config or {})
        plan = plan_model(self.folder, **options)
        self.check_accounted(tensors, plan)
        return plan

    def check_accounted(self, tensors, plan):
        used = [t for entry in plan.entries for t in entry.layer.tensors]
        self.assertEqual(set(tensors),
                         {*used, *plan.skipped, *plan.errors} & set(tensors))
        for name in plan.skipped:
            self.assertNotIn(name, used)

    def test_matrices_are_layers_with_their_biases(self):
        plan = self.plan({
            BLOCK + "q_proj.weight": (32, 64), BLOCK + "q_proj.bias": (32,),
            BLOCK + "norm.weight": (64,), BLOCK + "inv_freq": (8,),
            "model.embed_tokens.weight": (100, 64), "conv.weight": (4, 4, 3)})
        (entry,) = plan.entries
        self.assertEqual(BLOCK + "q_proj", entry.name)
        self.assertEqual((32, 64), (entry.layer.n, entry.layer.k))
        self.assertIsNotNone(entry.layer.bias)
        self.assertIn("looked up", plan.skipped["model.embed_tokens.weight"])
        self.assertIn("3 dimensions", plan.skipped["conv.weight"])
        self.assertEqual({}, plan.errors)

    def test_a_tied_head_is_the_table_of_tokens(self):
        tensors = {"model.embed_tokens.weight": (100, 64)}
        causal = {"architectures": ["GemmaForCausalLM"]}
        plan = self.plan(tensors, causal)
        self.assertEqual(["lm_head"], [e.name for e in plan.entries])
        for config in ({**causal, "tie_word_embeddings": False}, {},
                       {"architectures": ["BertModel"]}):
            self.assertEqual([], self.plan(tensors, config).entries)
        plan = self.plan({**tensors, "lm_head.weight": (100, 64)}, causal)
        self.assertEqual(1, len(plan.entries))
        self.assertIn("model.embed_tokens.weight", plan.skipped)

    def test_patterns_choose_names_and_formats(self):
        tensors = {f"a.{i}.weight": (32, 64) for i in range(4)}
        plan = self.plan(
            tensors, format="kbit4",
            formats={"a.1.*": "q4_0", "a.2.*": "keep"}, exclude=["a.3.*"],
            rename=[(r"^a\.(\d)", r"layer\1")], prefix="m/")
        self.assertEqual(
            {"m/layer0": "F16 -> kbit4", "m/layer1": "F16 -> q4_0",
             "m/layer2": "F16, kept"},
            {entry.name: entry.action for entry in plan.entries})
        self.assertEqual({"a.3.weight": "excluded"}, plan.skipped)
        plan = self.plan(tensors, include=["a.0.*"])
        self.assertEqual(["a.0"], [entry.name for entry in plan.entries])

    def test_a_name_or_shape_that_does_not_fit_is_an_error(self):
        plan = self.plan({"a.weight": (32, 50), "b.weight": (32, 64),
                          "c.weight": (32, 64), "d e.weight": (32, 64)},
                         format="kbit4", rename=[("^c$", "b")])
        self.assertEqual(["b"], [entry.name for entry in plan.entries])
        self.assertIn("k = 50", plan.errors["a.weight"])
        self.assertIn("name of b.weight too", plan.errors["c.weight"])
        self.assertIn("no name", plan.errors["d e.weight"])

    def test_packed_weights_that_are_not_read_are_errors(self):
        """As bitsandbytes packs four bits: no layer is left out unsaid."""
        checkpoints.write_safetensors(self.path("model.safetensors"), {
            "x.weight": np.zeros((64, 1), "<i4"),
            "x.absmax": np.zeros(4, "<f4"), "ids": np.zeros((1, 9), "<i8")})
        plan = plan_model(self.folder)
        self.assertEqual({"x.weight"}, set(plan.errors))
        self.assertEqual({"x.absmax", "ids"}, set(plan.skipped))

    def test_tables_are_known_by_their_names(self):
        tables = ("model.embed_tokens", "token_embd", "wte", "shared",
                  "embeddings.word_embeddings", "embed_positions")
        layers = ("embed_out", "embedding_projection", "lm_head", "embed.up")
        plan = self.plan({f"{name}.weight": (32, 64)
                          for name in tables + layers})
        self.assertEqual({f"{name}.weight" for name in tables},
                         set(plan.skipped))

    def test_gguf_keeps_q4_0_and_decodes_the_others(self):
        array = np.ones((4, 256), np.float32)
        kinds = {f"blk.0.{kind.name}.weight": kind for kind in (
            Type.Q4_0, Type.Q8_0, Type.Q4_K, Type.Q6_K, Type.Q5_1)}
        tensors = {**{name: array for name in kinds},
                   "token_embd.weight": array, "output_norm.weight": array[0]}
        checkpoints.write_gguf(self.path("m.gguf"), tensors, kinds)
        plan = plan_model(self.path("m.gguf"))
        self.check_accounted(tensors, plan)
        self.assertEqual(
            {"blk.0.Q4_0": "Q4_0, kept", "blk.0.Q8_0": "Q8_0, decoded -> kbit5",
             "blk.0.Q4_K": "Q4_K, decoded -> kbit4",
             "blk.0.Q6_K": "Q6_K, decoded -> kbit5", "output": "F32 -> bf16"},
            {entry.name: entry.action for entry in plan.entries})
        self.assertIn("Q5_1", plan.errors["blk.0.Q5_1.weight"])

    def test_packed_layers_are_kept_unless_a_pattern_names_them(self):
        tensors, _ = checkpoints.gptq_layer("x", self.random, 16, 64, 32, 1)
        tensors["y.weight"] = np.zeros((8, 64), "<f2")
        checkpoints.write_safetensors(self.path("q.safetensors"), tensors)
        checkpoints.write_json(self.folder, "config.json", {
            "quantization_config": {
                "quant_method": "gptq", "bits": 4, "group_size": 32}})
        plan = plan_model(self.folder, format="kbit3")
        self.check_accounted(tensors, plan)
        self.assertEqual({"x": "gptq, kept", "y": "F16 -> kbit3"},
                         {entry.name: entry.action for entry in plan.entries})
        plan = plan_model(self.folder, formats={"x.*": "kbit5"})
        self.assertEqual("gptq, decoded -> kbit5", plan.entries[0].action)
        checkpoint = open_checkpoint(self.path("q.safetensors"))
        self.assertEqual(32, checkpoint.quantization["group_size"])


if __name__ == "__main__":
    unittest.main()
