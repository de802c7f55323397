# SPDX-License-Identifier: Apache-2.0
"""A decoder on a server: embeddings, attention and the KV cache here, all else
by programs, a call a layer."""

from __future__ import annotations

from typing import Any, Iterator, Optional, Sequence

import numpy as np

from qgemm.loading import Checkpoint
from qgemm.loading.sources import Array
from qgemm.models.attention import Attend, KvCache, attend, causal_attention
from qgemm.models.families import DecoderSpec
from qgemm.models.programs import DecoderPrograms
from qgemm.models.tables import Tables


class Decoder:
    """Thread-safe as far as the client is; a cache belongs to one thread."""

    def __init__(self, client: Any, checkpoint: Checkpoint, spec: DecoderSpec,
                 prefix: str, rounding: str, attend: Attend = attend):
        """The checkpoint's layers are on the server, below `prefix`."""
        self._attend = attend
        self.spec = spec
        self._client = client
        tables = Tables(checkpoint)
        base = tables.base("layers.0.input_layernorm.weight")
        self._tokens = tables.table(base + "embed_tokens.weight")
        head = next((name[:-len(".weight")] for name in checkpoint.tensors
                     if name.endswith("lm_head.weight")), "lm_head")
        programs = DecoderPrograms(
            spec, base, head, tables.row,
            lambda name: prefix + name, rounding)
        self._entry = self._load(prefix + "program/entry", programs.entry())
        self._layers = [
            self._load(f"{prefix}program/layer.{i}", programs.layer(i))
            for i in range(spec.layers)]
        self._head = self._load(prefix + "program/head", programs.head())

    def _load(self, name: str, program: Any) -> Any:
        return self._client.load_program(name, program)

    def cache(self) -> KvCache:
        """An empty cache, for one sequence."""
        return KvCache(self.spec)

    def forward(self, tokens: Sequence[int],
                cache: Optional[KvCache] = None) -> Array:
        """[m, hidden] of the tokens behind those in the cache, before the last
        norm; the cache then has them too."""
        cache = self.cache() if cache is None else cache
        x = self._embed(tokens)
        q, k, v = self._client.run(self._entry, x)
        for i, program in enumerate(self._layers[:-1]):
            a = self._attention((q, k, v), i, cache)
            x, q, k, v = self._client.run(program, a, x)
        a = self._attention((q, k, v), self.spec.layers - 1, cache)
        x = self._client.run(self._layers[-1], a, x)
        cache.length += len(x)
        return x

    def logits(self, tokens: Sequence[int], cache: Optional[KvCache] = None, *,
               last: bool = False) -> Array:
        """[m, vocabulary] of each token, or [1, vocabulary] of the last."""
        x = self.forward(tokens, cache)
        logits = self._client.run(self._head, x[-1:] if last else x)
        if self.spec.logit_cap is not None:
            cap = np.float32(self.spec.logit_cap)
            logits = np.tanh(logits / cap) * cap
        return logits

    def generate(self, tokens: Sequence[int], count: int,
                 stop: Sequence[int] = ()) -> Iterator[int]:
        """Yields up to `count` tokens behind `tokens`, the likeliest each, and
        ends behind one of `stop`."""
        cache, rest = self.cache(), list(tokens)
        for _ in range(count):
            token = int(self.logits(rest, cache, last=True)[0].argmax())
            yield token
            if token in stop:
                return
            rest = [token]

    def _attention(self, qkv: tuple[Array, ...], layer: int,
                   cache: KvCache) -> Array:
        return causal_attention(qkv, layer, self.spec, cache, self._attend)

    def _embed(self, tokens: Sequence[int]) -> Array:
        ids = np.asarray(tokens)
        if ids.ndim != 1 or ids.size == 0:
            raise ValueError("tokens are a sequence of one id or more")
        return self._tokens(ids) * np.float32(self.spec.embedding_scale)
