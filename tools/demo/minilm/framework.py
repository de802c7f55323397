# SPDX-License-Identifier: Apache-2.0
"""The embeddings by a framework: CTranslate2's BERT encoder, in fp32.

CTranslate2 has its own arithmetic, order of operations and attention; it gets
the tensors here, by the checkpoint's names, and nothing else of model.py.
"""

import tempfile

import ctranslate2
import numpy as np
from ctranslate2.specs import common_spec, transformer_spec

from model import EPS, HEADS, LAYERS

NAME = f"CTranslate2 {ctranslate2.__version__}"


def _set(spec, pair):
    """Gives a LinearSpec its weight and bias."""
    spec.weight, spec.bias = pair


def _set_norm(spec, pair):
    spec.gamma, spec.beta = pair


def _set_layer(spec, model, layer):
    def pair(name):
        return model.pair(f"encoder.layer.{layer}.{name}")

    joined = zip(*(pair(f"attention.self.{name}")
                   for name in ("query", "key", "value")))
    attention = spec.self_attention
    _set(attention.linear[0], [np.concatenate(part) for part in joined])
    _set(attention.linear[1], pair("attention.output.dense"))
    _set_norm(attention.layer_norm, pair("attention.output.LayerNorm"))
    _set(spec.ffn.linear_0, pair("intermediate.dense"))
    _set(spec.ffn.linear_1, pair("output.dense"))
    _set_norm(spec.ffn.layer_norm, pair("output.LayerNorm"))


def _specification(model):
    encoder = transformer_spec.TransformerEncoderSpec(
        LAYERS, HEADS, pre_norm=False, layernorm_embedding=True,
        activation=common_spec.Activation.GELU, num_source_embeddings=2,
        embeddings_merge=common_spec.EmbeddingsMerge.ADD)
    encoder.scale_embeddings = False
    tables = [model.tensors[f"embeddings.{kind}_embeddings.weight"]
              for kind in ("word", "token_type", "position")]
    encoder.embeddings[0].weight, encoder.embeddings[1].weight = tables[:2]
    encoder.position_encodings.encodings = tables[2]
    _set_norm(encoder.layernorm_embedding, model.pair("embeddings.LayerNorm"))
    for layer, spec in enumerate(encoder.layer):
        _set_layer(spec, model, layer)
    specification = transformer_spec.TransformerEncoderModelSpec(encoder)
    specification.config.layer_norm_epsilon = EPS
    specification.register_vocabulary(model.vocabulary())
    specification.validate()
    return specification


class Framework:
    """The model in CTranslate2, with as many threads as that chooses."""

    def __init__(self, model):
        with tempfile.TemporaryDirectory() as folder:
            _specification(model).save(folder)
            self._encoder = ctranslate2.Encoder(
                folder, compute_type="float32")

    def last_hidden_state(self, ids):
        """[m, HIDDEN] of one sentence's tokens."""
        output = self._encoder.forward_batch([list(ids)])
        return np.array(output.last_hidden_state)[0]
