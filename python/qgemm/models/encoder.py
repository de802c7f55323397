# SPDX-License-Identifier: Apache-2.0
"""An encoder of the family of BERT on a server, and embeddings of texts by it.

The client keeps the tables, attention, pooling and the first layer's q, k and
v, which the tokens alone decide; all else is a program a layer.
"""

from __future__ import annotations

import json
import os
from typing import Any, Sequence, Union

import numpy as np

from qgemm.loading import Checkpoint, CheckpointError
from qgemm.loading.sources import Array
from qgemm.models.attention import full_attention
from qgemm.models.families import EncoderSpec
from qgemm.models.programs import encoder_layer
from qgemm.models.tables import Tables


class Encoder:
    """Thread-safe as far as the client is."""

    def __init__(self, client: Any, checkpoint: Checkpoint, spec: EncoderSpec,
                 prefix: str, rounding: str):
        """The checkpoint's layers are on the server, below `prefix`."""
        self.spec = spec
        self._client = client
        self._path = checkpoint.path
        self._tokenizer: Any = None
        self._pools_first = _pools_first(checkpoint.path)
        tables = Tables(checkpoint)
        base = tables.base("embeddings.word_embeddings.weight")
        tables_of = base + "embeddings."
        self._words = tables.table(tables_of + "word_embeddings.weight")
        self._added = (
            tables.matrix(tables_of + "position_embeddings.weight") +
            tables.matrix(tables_of + "token_type_embeddings.weight")[0])
        self._norm = tuple(tables.row(f"{tables_of}LayerNorm.{part}")
                           for part in ("weight", "bias"))
        first = base + "encoder.layer.0.attention.self."
        self._first = [(tables.matrix(f"{first}{part}.weight"),
                        tables.row(f"{first}{part}.bias"))
                       for part in ("query", "key", "value")]
        self._programs = [client.load_program(
            f"{prefix}program/layer.{i}",
            encoder_layer(spec, base, i, tables.row,
                          lambda name: prefix + name, rounding))
            for i in range(spec.layers)]

    def hidden(self, tokens: Sequence[int]) -> Array:
        """[m, hidden] of one text's tokens, special ones included."""
        x = self._embed(np.asarray(tokens))
        q, k, v = (x @ weight.T + bias for weight, bias in self._first)
        for program in self._programs[:-1]:
            a = full_attention(q, k, v, self.spec.heads)
            x, q, k, v = self._client.run(program, a, x)
        a = full_attention(q, k, v, self.spec.heads)
        return self._client.run(self._programs[-1], a, x)

    def embed(self, texts: Union[str, Sequence[str]]) -> Array:
        """[texts, hidden], each of length 1: the mean over a text's tokens, or
        the first if the directory's pooling says so. Needs the package
        tokenizers and the directory's tokenizer.json."""
        texts = [texts] if isinstance(texts, str) else texts
        rows = []
        for text in texts:
            x = self.hidden(self.tokens(text))
            row = x[0] if self._pools_first else x.mean(axis=0)
            rows.append(row / np.linalg.norm(row))
        return np.array(rows)

    def tokens(self, text: str) -> list[int]:
        """Ids of the text, special ones included, cut at the model's limit."""
        if self._tokenizer is None:
            import tokenizers
            tokenizer = tokenizers.Tokenizer.from_file(
                os.path.join(self._path, "tokenizer.json"))
            tokenizer.no_padding()
            tokenizer.enable_truncation(self.spec.max_tokens)
            self._tokenizer = tokenizer
        ids: list[int] = self._tokenizer.encode(text).ids
        return ids

    def _embed(self, ids: Array) -> Array:
        if ids.ndim != 1 or not 1 <= ids.size <= self.spec.max_tokens:
            raise ValueError(f"tokens are a sequence of 1 to "
                             f"{self.spec.max_tokens} ids")
        at = self.spec.first_position
        x = self._words(ids) + self._added[at:at + ids.size]
        x -= x.mean(axis=1, keepdims=True)
        variance = (x * x).mean(axis=1, keepdims=True)
        weight, bias = self._norm
        return x / np.sqrt(variance + np.float32(self.spec.eps)) * weight + bias


def _pools_first(path: str) -> bool:
    """True if a sentence's embedding is that of its first token, as the pooling
    of sentence-transformers beside the model says."""
    file = os.path.join(path, "1_Pooling", "config.json")
    if not os.path.exists(file):
        return False
    with open(file, encoding="utf-8") as opened:
        config = json.load(opened)
    first, mean = (config.get(f"pooling_mode_{kind}") is True
                   for kind in ("cls_token", "mean_tokens"))
    if first == mean:
        raise CheckpointError(
            f"{file}: pooling by one of mean_tokens and cls_token is known")
    return first
