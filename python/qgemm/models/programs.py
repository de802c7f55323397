# SPDX-License-Identifier: Apache-2.0
"""The programs of a model's layers (docs/programs.md has the op set).

Attention cuts a decoder into programs: an entry, which makes the first q, k and
v; one for each layer behind its attention, which ends with the next layer's q, k
and v; and a head. Values are fp32; operands of products are rounded to fp16 or
bf16, and so are q, k and v, which travel.
"""

from __future__ import annotations

import functools
from typing import Callable, Optional

import numpy as np

from qgemm.loading.sources import Array
from qgemm.models.families import DecoderSpec, EncoderSpec
from qgemm.programs import Program, Value

Row = Callable[[str], Array]    # a checkpoint's name -> fp32 [width]
Weights = Callable[[str], str]  # a checkpoint's name -> name on the server


class _Draft:
    """A program in the making, whose names are those of a layer's parts."""

    def __init__(self, row: Row, weights: Weights, rounding: str):
        self.program = Program("fp32")
        self.row = row
        self._weights = weights
        self.rounding = rounding

    def gemm(self, x: Value, name: str, dtype: Optional[str] = None,
             rounded: bool = False) -> Value:
        """rounded: x has the type of operands already."""
        return self.program.gemm(
            x, self._weights(name), dtype=dtype, name=name.rpartition(".")[2],
            rounding=None if rounded else self.rounding)


class DecoderPrograms:
    """Makes the programs of a decoder whose tensors are below `base`."""

    def __init__(self, spec: DecoderSpec, base: str, head: str, row: Row,
                 weights: Weights, rounding: str):
        """head: the checkpoint's name of the layer that makes logits."""
        self._spec = spec
        self._base = base
        self._head = head
        self._draft = functools.partial(_Draft, row, weights, rounding)

    def entry(self) -> Program:
        """x -> q, k, v of the first layer."""
        draft = self._draft()
        x = draft.program.input(self._spec.hidden, "x")
        draft.program.output(*self._qkv(draft, x, 0))
        return draft.program

    def layer(self, i: int) -> Program:
        """a, x -> x' and, but for the last layer, the next one's q, k, v."""
        draft = self._draft()
        p, spec = draft.program, self._spec
        a = p.input(spec.q_width, "a", dtype=draft.rounding)
        x = p.input(spec.hidden, "x")
        name = f"{self._base}layers.{i}."
        o = draft.gemm(a, name + "self_attn.o_proj", rounded=True)
        if spec.has_output_norms:
            o = self._norm(draft, o, name + "post_attention_layernorm")
        r = p.add(x, o, name="r")
        before = ("pre_feedforward_layernorm" if spec.has_output_norms else
                  "post_attention_layernorm")
        f = self._ffn(draft, self._norm(draft, r, name + before), name + "mlp.")
        if spec.has_output_norms:
            f = self._norm(draft, f, name + "post_feedforward_layernorm")
        x = p.add(r, f, name="x")
        p.output(x)
        if i + 1 < spec.layers:
            p.output(*self._qkv(draft, x, i + 1))
        return p

    def head(self) -> Program:
        """x -> logits."""
        draft = self._draft()
        x = draft.program.input(self._spec.hidden, "x")
        h = self._norm(draft, x, self._base + "norm")
        draft.program.output(draft.gemm(h, self._head))
        return draft.program

    def _norm(self, draft: _Draft, x: Value, name: str, group: int = 0,
              dtype: Optional[str] = None) -> Value:
        weight = draft.row(name + ".weight") + np.float32(self._spec.norm_offset)
        return draft.program.rms_norm(x, weight, eps=self._spec.eps, group=group,
                                      dtype=dtype, name=name.rpartition(".")[2])

    def _ffn(self, draft: _Draft, h: Value, name: str) -> Value:
        p = draft.program
        if self._spec.merged:
            both = draft.gemm(h, name + "gate_up_proj")
            # Its rows are those of gate, then those of up.
            width = self._spec.ffn
            gate, up = p.slice(both, 0, width), p.slice(both, width, width)
        else:
            gate = draft.gemm(h, name + "gate_proj")
            up = draft.gemm(h, name + "up_proj")
        gated = p.mul(p.act(gate, self._spec.activation), up, name="gated")
        return draft.gemm(gated, name + "down_proj")

    def _qkv(self, draft: _Draft, x: Value, i: int) -> list[Value]:
        """q, k and v of layer i in the type of operands."""
        p, spec, kind = draft.program, self._spec, draft.rounding
        name = f"{self._base}layers.{i}."
        h = self._norm(draft, x, name + "input_layernorm")
        name += "self_attn."
        if spec.merged:
            qkv = draft.gemm(h, name + "qkv_proj")
            return [p.slice(qkv, begin, width, dtype=kind) for begin, width in (
                (0, spec.q_width), (spec.q_width, spec.kv_width),
                (spec.q_width + spec.kv_width, spec.kv_width))]
        if not spec.has_head_norms:
            return [draft.gemm(h, f"{name}{part}_proj", kind) for part in "qkv"]
        normed = [self._norm(draft, draft.gemm(h, f"{name}{part}_proj"),
                             f"{name}{part}_norm", spec.head, kind)
                  for part in "qk"]
        return [*normed, draft.gemm(h, name + "v_proj", kind)]


def encoder_layer(spec: EncoderSpec, base: str, i: int, row: Row,
                  weights: Weights, rounding: str) -> Program:
    """A layer of BERT behind its attention: a, x -> x' and, but for the last
    layer, the next one's q, k, v."""
    draft = _Draft(row, weights, rounding)
    p = draft.program
    a = p.input(spec.hidden, "a", dtype=rounding)
    x = p.input(spec.hidden, "x")
    name = f"{base}encoder.layer.{i}."

    def norm(value: Value, part: str) -> Value:
        return p.layer_norm(value, row(f"{name}{part}.weight"),
                            row(f"{name}{part}.bias"), eps=spec.eps, name=part)

    o = draft.gemm(a, name + "attention.output.dense", rounded=True)
    r = norm(p.add(x, o), "attention.output.LayerNorm")
    up = draft.gemm(r, name + "intermediate.dense")
    down = draft.gemm(p.act(up, spec.activation), name + "output.dense")
    x = norm(p.add(r, down), "output.LayerNorm")
    p.output(x)
    if i + 1 < spec.layers:
        after = f"{base}encoder.layer.{i + 1}.attention.self."
        p.output(*(draft.gemm(x, after + part, rounding)
                   for part in ("query", "key", "value")))
    return p
