# SPDX-License-Identifier: Apache-2.0
"""The client's part of a transformer between programs, by NumPy in fp32:
rotary positions, the KV cache, attention."""

from __future__ import annotations

from typing import Any, Callable, Optional

import numpy as np

from qgemm.loading.sources import Array
from qgemm.models.families import DecoderSpec, LayerAttention, Rotation

Attend = Callable[..., Any]  # of the same arguments and result as `attend`


def softmax(scores: Array) -> Array:
    """Over the last axis, in place."""
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    return scores


def rotate(x: Array, positions: Array,
           rotation: Rotation) -> Array:
    """x [m, heads, head] with its heads turned by their rows' positions."""
    half = rotation.width // 2
    angles = positions[:, None] * np.asarray(rotation.frequencies)
    cos, sin = (f(angles).astype(np.float32)[:, None] for f in (np.cos, np.sin))
    first, second = x[..., :half], x[..., half:2 * half]
    return np.concatenate((first * cos - second * sin,
                           second * cos + first * sin,
                           x[..., 2 * half:]), axis=-1)


class KvCache:
    """Keys and values of the tokens of one sequence so far, for every layer.
    Grows by doubling. Not thread-safe."""

    def __init__(self, spec: DecoderSpec):
        self.length = 0  # tokens that all layers have
        shape = (2, 0, spec.kv_heads, spec.head)
        self._rows = [np.empty(shape, np.float32) for _ in spec.attention]

    def append(self, layer: int, k: Array,
               v: Array) -> tuple[Array, Array]:
        """Adds rows [m, kv_heads, head] behind `length`; all of k and of v."""
        end = self.length + len(k)
        rows = self._rows[layer]
        if rows.shape[1] < end:
            grown = np.empty((2, max(end, 2 * rows.shape[1]), *rows.shape[2:]),
                             np.float32)
            grown[:, :self.length] = rows[:, :self.length]
            self._rows[layer] = rows = grown
        rows[0, self.length:end], rows[1, self.length:end] = k, v
        return rows[0, :end], rows[1, :end]


def attend(q: Array, keys: Array, values: Array, hidden: Array,
           cap: Optional[float]) -> Array:
    """[kv_heads, g, m, head]: q of that shape, scaled; keys and values [length,
    kv_heads, head], each head of which serves g of q; hidden [m, length]: True
    where a row must not look. cap: scores become cap * tanh(score / cap)."""
    scores = q @ keys.transpose(1, 2, 0)[:, None]
    if cap is not None:
        scores = np.tanh(scores / cap) * np.float32(cap)
    scores[..., hidden] = -np.inf
    return softmax(scores) @ values.transpose(1, 0, 2)[:, None]


def causal_attention(qkv: tuple[Array, ...], layer: int, spec: DecoderSpec,
                     cache: KvCache, attend: Attend = attend) -> Array:
    """[m, heads * head] of the m tokens behind those in the cache, to which
    their k and v are added."""
    here: LayerAttention = spec.attention[layer]
    m = len(qkv[0])
    positions = np.arange(cache.length, cache.length + m)
    q, k, v = (x.reshape(m, -1, spec.head).astype(np.float32) for x in qkv)
    q = rotate(q, positions, here.rotation) * np.float32(spec.scale)
    keys, values = cache.append(layer, rotate(k, positions, here.rotation), v)
    q = q.reshape(m, spec.kv_heads, -1, spec.head).transpose(1, 2, 0, 3)
    made = attend(q, keys, values, _hidden(positions, len(keys), here.window),
                  spec.score_cap)
    return made.transpose(2, 0, 1, 3).reshape(m, -1)


def _hidden(positions: Array, length: int,
            window: Optional[int]) -> Array:
    """[m, length]: True where a row must not see a token."""
    distance = positions[:, None] - np.arange(length)
    hidden = distance < 0
    return hidden if window is None else hidden | (distance >= window)


def full_attention(q: Array, k: Array, v: Array,
                   heads: int) -> Array:
    """[m, hidden] each, of one text: every token attends to all."""
    def split(x: Array) -> Array:
        return x.astype(np.float32).reshape(len(x), heads, -1).transpose(1, 0, 2)

    scores = split(q) @ split(k).transpose(0, 2, 1)
    scores *= np.float32((q.shape[1] // heads) ** -0.5)
    return (softmax(scores) @ split(v)).transpose(1, 0, 2).reshape(len(q), -1)
