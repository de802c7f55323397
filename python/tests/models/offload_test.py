# SPDX-License-Identifier: Apache-2.0
"""Tests qgemm.torch.offload on models of transformers and on plain modules."""

import unittest

import numpy as np
import torch

import local_models
import qgemm.torch
from cases import ServerTest


class CountingClient:
    """Passes calls on; keeps the weights that each gemm named."""

    def __init__(self, client):
        self.load = client.load
        self._client = client
        self.asked = []

    def gemm(self, weights, x, **options):
        self.asked.append(weights)
        return self._client.gemm(weights, x, **options)


class Attention(torch.nn.Module):
    """q of x, k and v of y."""

    def __init__(self):
        super().__init__()
        for name in ("q_proj", "k_proj", "v_proj"):
            setattr(self, name, torch.nn.Linear(32, 8))

    def forward(self, x, y):
        return self.q_proj(x), self.k_proj(y), self.v_proj(y)


class ByProgramsTest(ServerTest):

    def test_a_decoder_in_memory_answers_as_before(self):
        for family in ("qwen3", "gemma2"):
            with self.subTest(family):
                model = local_models.make(family, self.folder)
                prompts = [self.random.integers(3, 150, 20) for _ in range(4)]
                plain, tolerance = local_models.results_and_tolerance(
                    model, local_models.logits, prompts)
                decoder = qgemm.torch.by_programs(
                    model.half(), self.client, prefix=family + "/")
                made = [decoder.logits(prompt) for prompt in prompts]
                self.assertLess(np.max(np.abs(np.subtract(plain, made))),
                                tolerance)
                self.assertEqual([plain[0][-1].argmax()],
                                 list(decoder.generate(prompts[0], 1)))


class OffloadTest(ServerTest):

    def test_a_model_answers_as_before(self):
        for family in ("llama", "qwen2", "gemma2"):
            with self.subTest(family):
                model = local_models.make(family, self.folder)
                prompts = [self.random.integers(3, 150, 20) for _ in range(4)]
                plain, tolerance = local_models.results_and_tolerance(
                    model, local_models.logits, prompts)
                made = qgemm.torch.offload(model, self.client, format="fp16",
                                           rounding="fp16", prefix=family + "/")
                self.assertEqual([], made.skipped)
                self.assertEqual(3 * 7 + 1, len(made.layers))
                self.assertGreater(made.resident_bytes, 0)
                got = [local_models.logits(model, p) for p in prompts]
                self.assertLess(np.max(np.abs(np.subtract(plain, got))), tolerance)

    def test_siblings_go_together(self):
        model = local_models.make("llama", self.folder)
        client = CountingClient(self.client)
        qgemm.torch.offload(model, client, format="fp16")
        local_models.logits(model, [5, 6])
        self.assertEqual(3 * 4 + 1, len(client.asked))
        self.assertEqual([f"model.layers.0.self_attn.{part}_proj"
                          for part in "qkv"], client.asked[0])

    def test_siblings_of_different_operands_go_alone(self):
        torch.manual_seed(1)
        module, client = Attention(), CountingClient(self.client)
        x, y = torch.randn(3, 32), torch.randn(2, 5, 32)
        with torch.no_grad():
            want = module(x, y)
        qgemm.torch.offload(module, client, format="fp16", rounding="fp16")
        for _ in range(2):
            for wanted, made in zip(want, module(x, y)):
                self.assertEqual(wanted.shape, made.shape)
                np.testing.assert_allclose(wanted, made, atol=0.01)
        self.assertEqual(["k_proj", "v_proj", "q_proj", "k_proj", "v_proj"],
                         client.asked[1:])

    def test_patterns_choose_and_types_stay(self):
        module = torch.nn.Sequential(
            torch.nn.Linear(64, 32), torch.nn.Linear(32, 16)).bfloat16()
        made = qgemm.torch.offload(module, self.client, exclude=["1"],
                                   prefix="seq/")
        self.assertEqual((["0"], ["1"]), (list(made.layers), made.skipped))
        self.assertEqual("kbit4", self.client.describe("seq/0").format)
        self.assertIsInstance(module[1], torch.nn.Linear)
        self.assertIn("seq/0", repr(module))
        with torch.no_grad():
            self.assertEqual(torch.bfloat16,
                             module(torch.ones(2, 64).bfloat16()).dtype)


if __name__ == "__main__":
    unittest.main()
