# SPDX-License-Identifier: Apache-2.0
"""Tests decoders by programs against the same models of transformers."""

import json
import unittest

import numpy as np
import torch

import checkpoints
import local_models
import qgemm.models
from cases import ServerTest
from qgemm.loading import open_checkpoint
from qgemm.models.families import decoder_spec

PROMPTS = 4
TOKENS = 20  # longer than the windows of the families that have one


class DecoderTest(ServerTest):

    def prompts(self):
        return [self.random.integers(3, local_models.SIZES["vocab_size"],
                                     TOKENS).tolist() for _ in range(PROMPTS)]

    def test_logits_are_those_of_the_local_model(self):
        for family in local_models.FAMILIES:
            with self.subTest(family):
                local = local_models.make(family, self.folder)
                remote = qgemm.models.load(self.client, self.folder)
                self.check_logits(local, remote)
                self.tearDown()

    def check_logits(self, local, remote):
        prompts = self.prompts()
        plain, tolerance = local_models.results_and_tolerance(
            local, local_models.logits, prompts)
        made = [remote.logits(p) for p in prompts]
        self.assertLess(np.max(np.abs(np.subtract(plain, made))), tolerance)
        # The tolerance would tell another model from this one.
        self.assertLess(tolerance, 0.1 * np.std(plain))

    def test_quantized_logits_are_those_of_the_servers_weights(self):
        for format in ("kbit5", "kbit3", "q4_0", "int4", "ternary"):
            with self.subTest(format):
                local = local_models.make("llama", self.folder)
                remote = qgemm.models.load(self.client, self.folder,
                                           format=format, prefix="m/")
                for name, module in local.named_modules():
                    if isinstance(module, torch.nn.Linear):
                        self.take_weights("m/" + name, module)
                self.check_logits(local, remote)
                self.tearDown()

    def test_packed_checkpoints_are_models_too(self):
        for method in ("gptq", "awq"):
            with self.subTest(method):
                local = local_models.make("llama", self.folder)
                self.pack(method, local)
                remote = qgemm.models.load(self.client, self.folder)
                self.assertIn("int4", {
                    info.format for info in self.client.weights()})
                self.check_logits(local, remote)
                self.tearDown()

    def pack(self, method, local):
        """Makes the folder's linear layers 4 bits, but the head, and the model's."""
        tensors = {name: tensor.array().copy() for name, tensor in
                   open_checkpoint(self.folder).tensors.items()}
        for name, module in local.named_modules():
            if not isinstance(module, torch.nn.Linear) or name == "lm_head":
                continue
            n, k = tensors.pop(f"{name}.weight").shape
            made, w = (
                checkpoints.awq_layer(name, self.random, n, k, 32, scale=0.03)
                if method == "awq" else checkpoints.gptq_layer(
                    name, self.random, n, k, 32, 1, act_order=True,
                    scale=0.03))
            tensors.update(made)
            with torch.no_grad():
                module.weight.copy_(torch.from_numpy(w))
        checkpoints.write_safetensors(self.path("model.safetensors"), tensors)
        with open(self.path("config.json"), encoding="utf-8") as file:
            config = json.load(file)
        checkpoints.write_json(self.folder, "config.json", {
            **config, "quantization_config": {
                "quant_method": method, "bits": 4, "group_size": 32}})

    def take_weights(self, name, linear):
        """Gives the module what the server holds: its product with 1."""
        ones = np.eye(linear.in_features, dtype=np.float16)
        held = self.client.gemm(name, ones, dtype="fp32").T
        self.assertLess(0, np.abs(held - linear.weight.detach().numpy()).max())
        with torch.no_grad():
            linear.weight.copy_(torch.from_numpy(np.ascontiguousarray(held)))

    def test_greedy_tokens_are_those_of_the_local_model(self):
        for family in ("llama", "qwen3", "gemma3_text"):
            with self.subTest(family):
                local = local_models.make(family, self.folder)
                remote = qgemm.models.load(self.client, self.folder)
                prompt = self.prompts()[0]
                want = list(prompt)
                for _ in range(12):
                    want.append(int(
                        local_models.logits(local, want)[-1].argmax()))
                self.assertEqual(want[TOKENS:],
                                 list(remote.generate(prompt, 12)))
                self.tearDown()

    def test_a_cache_gives_what_the_whole_prompt_gives(self):
        local = local_models.make("mistral", self.folder)
        remote = qgemm.models.load(self.client, self.folder)
        prompt = self.prompts()[0]
        (plain,), tolerance = local_models.results_and_tolerance(
            local, local_models.logits, [prompt])
        cache = remote.cache()
        parts = [remote.logits(prompt[at:at + 5], cache)
                 for at in range(0, TOKENS, 5)]
        np.testing.assert_allclose(np.concatenate(parts), plain, rtol=0,
                                   atol=tolerance)
        self.assertEqual(TOKENS, cache.length)

    def test_generation_stops(self):
        local_models.make("llama", self.folder)
        remote = qgemm.models.load(self.client, self.folder)
        first, second = remote.generate([5, 6], 2)
        self.assertEqual([first], list(remote.generate([5, 6], 9, [first])))


class SpecTest(unittest.TestCase):

    def test_configs_of_later_transformers_are_the_same(self):
        """rope_theta and the kinds of layers have moved."""
        sizes = {**local_models.SIZES, "model_type": "gemma3_text"}
        now = decoder_spec({
            **sizes, "sliding_window": 6, "sliding_window_pattern": 2,
            "rope_theta": 1e5, "rope_local_base_freq": 1e3})
        later = decoder_spec({
            **sizes, "sliding_window": 6,
            "layer_types": ["sliding_attention", "full_attention",
                            "sliding_attention"],
            "rope_parameters": {
                "full_attention": {"rope_type": "default", "rope_theta": 1e5},
                "sliding_attention": {"rope_type": "default",
                                      "rope_theta": 1e3}}})
        self.assertEqual(now, later)

    def test_a_null_is_no_cap_and_a_missing_cap_the_familys(self):
        gemma = {**local_models.SIZES, "model_type": "gemma2"}
        spec = decoder_spec(gemma)
        self.assertEqual((50.0, 30.0), (spec.score_cap, spec.logit_cap))
        spec = decoder_spec({**gemma, "attn_logit_softcapping": None,
                             "final_logit_softcapping": None})
        self.assertEqual((None, None), (spec.score_cap, spec.logit_cap))

    def test_what_is_not_known_is_refused(self):
        llama = {**local_models.SIZES, "model_type": "llama"}
        for key, value in (
                ("model_type", "mamba"), ("hidden_act", "swiglu"),
                ("rope_scaling", {"rope_type": "yarn", "factor": 2.0}),
                ("num_local_experts", 8), ("hidden_size", "64")):
            with self.assertRaises(qgemm.CheckpointError, msg=key):
                decoder_spec({**llama, key: value})


if __name__ == "__main__":
    unittest.main()
