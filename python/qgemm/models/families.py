# SPDX-License-Identifier: Apache-2.0
"""What a Hugging Face config.json says of a model: its sizes, norms, rotary
positions and attention, by family, in one form.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Callable, Mapping, Optional, TypeVar

from qgemm.loading import CheckpointError

Config = Mapping[str, Any]
Spec = TypeVar("Spec")

MAX_NUMBER = 1 << 20  # of layers, and of elements of a width
# Values of keys that a config.json may leave out, where they are not the value
# of most families.
DEFAULTS: dict[str, dict[str, Any]] = {
    "llama": {}, "mistral": {}, "qwen2": {}, "qwen3": {}, "phi3": {},
    "gemma2": {"sliding_window": 4096, "query_pre_attn_scalar": 256,
               "attn_logit_softcapping": 50.0, "head_dim": 256,
               "final_logit_softcapping": 30.0,
               "hidden_activation": "gelu_pytorch_tanh"},
    "gemma3_text": {"sliding_window": 4096, "query_pre_attn_scalar": 256,
                    "rope_theta": 1e6, "rope_local_base_freq": 1e4,
                    "num_attention_heads": 8, "num_key_value_heads": 4,
                    "head_dim": 256, "sliding_window_pattern": 6,
                    "hidden_activation": "gelu_pytorch_tanh"},
}
# Of these a null says that there is none; of others, that the default holds.
NULL_KEYS = ("attn_logit_softcapping", "final_logit_softcapping")
BERT_FAMILIES = ("bert", "roberta", "xlm-roberta")
# Our names of activations, by the checkpoints'.
ACTIVATIONS = {"silu": "silu", "gelu": "gelu_erf", "relu": "relu",
               "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh"}


@dataclass(frozen=True)
class Rotation:
    """Rotary positions: `width` elements of a head are turned, element j of the
    first half with element j of the second, by position * frequencies[j]."""
    width: int
    frequencies: tuple[float, ...]  # radians a position, width / 2


@dataclass(frozen=True)
class LayerAttention:
    """What attention does in one layer."""
    rotation: Rotation
    window: Optional[int]  # positions that are seen, the own one too; None: all


@dataclass(frozen=True)
class DecoderSpec:
    """A decoder. All widths are elements."""
    family: str
    hidden: int
    heads: int
    kv_heads: int
    head: int                 # width of a head
    ffn: int                  # width between gate or up, and down
    eps: float
    activation: str
    attention: tuple[LayerAttention, ...]  # a layer
    scale: float              # of scores
    norm_offset: float        # norms multiply by norm_offset + w
    embedding_scale: float
    has_head_norms: bool      # of each head of q and k
    has_output_norms: bool    # of attention's and the FFN's results
    merged: bool              # q, k and v are one layer, gate and up another
    score_cap: Optional[float] = None
    logit_cap: Optional[float] = None

    @property
    def layers(self) -> int:
        return len(self.attention)

    @property
    def q_width(self) -> int:
        return self.heads * self.head

    @property
    def kv_width(self) -> int:
        return self.kv_heads * self.head


@dataclass(frozen=True)
class EncoderSpec:
    """An encoder of the family of BERT."""
    hidden: int
    heads: int
    layers: int
    eps: float
    activation: str
    first_position: int   # row of the table of positions for a first token
    max_tokens: int       # of a text


def decoder_spec(config: Config) -> DecoderSpec:
    """Raises CheckpointError for a family that is not known, what a known one has
    and this does not compute, and values that are none."""
    return _checked(_decoder_spec, config)


def encoder_spec(config: Config) -> EncoderSpec:
    """Raises CheckpointError for other position embeddings than absolute, and for
    values that are none."""
    return _checked(_encoder_spec, config)


def _checked(read: Callable[[Config], Spec], config: Config) -> Spec:
    """A value of a wrong type or a key that is missing ends in CheckpointError."""
    try:
        return read(config)
    except CheckpointError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError,
            ValueError) as error:
        raise CheckpointError(f"config.json: {error!r}") from error


def _decoder_spec(config: Config) -> DecoderSpec:
    config = config.get("text_config") or config
    family = str(config.get("model_type"))
    if family not in DEFAULTS:
        raise CheckpointError(
            f"config.json: model_type {family!r}; "
            f"{', '.join((*DEFAULTS, *BERT_FAMILIES))} are known")
    values = {**DEFAULTS[family], **{
        key: value for key, value in config.items()
        if value is not None or key in NULL_KEYS}}
    _refuse_unknown_parts(values)
    hidden, heads = (_number(values, key)
                     for key in ("hidden_size", "num_attention_heads"))
    head = _number(values, "head_dim", hidden // heads)
    gemma = family.startswith("gemma")
    return DecoderSpec(
        family=family, hidden=hidden, heads=heads,
        kv_heads=_number(values, "num_key_value_heads", heads), head=head,
        ffn=_number(values, "intermediate_size"),
        eps=float(values.get("rms_norm_eps", 1e-6)),
        activation=_activation(values), attention=_attention(values, family, head),
        scale=float(values.get("query_pre_attn_scalar", head)) ** -0.5,
        norm_offset=float(gemma), merged=family == "phi3",
        embedding_scale=math.sqrt(hidden) if gemma else 1.0,
        has_head_norms=family in ("qwen3", "gemma3_text"),
        has_output_norms=gemma, score_cap=values.get("attn_logit_softcapping"),
        logit_cap=values.get("final_logit_softcapping"))


def _encoder_spec(config: Config) -> EncoderSpec:
    kind = config.get("position_embedding_type", "absolute")
    if kind != "absolute":
        raise CheckpointError(
            f"config.json: position_embedding_type {kind!r}; absolute is known")
    first = 0
    if config.get("model_type") != "bert":
        first = _number(config, "pad_token_id", 1) + 1
    return EncoderSpec(
        _number(config, "hidden_size"), _number(config, "num_attention_heads"),
        _number(config, "num_hidden_layers"),
        float(config.get("layer_norm_eps", 1e-12)), _activation(config), first,
        _number(config, "max_position_embeddings", 512) - first)


def _number(values: Config, key: str, default: Optional[int] = None) -> int:
    value = values.get(key, default)
    if type(value) is not int or not 0 <= value <= MAX_NUMBER:
        raise CheckpointError(
            f"config.json: {key} is {value!r}, no number up to {MAX_NUMBER}")
    return value


def _activation(values: Config) -> str:
    name = values.get("hidden_activation") or values.get("hidden_act", "silu")
    if name not in ACTIVATIONS:
        raise CheckpointError(
            f"config.json: activation {name!r}; {', '.join(ACTIVATIONS)} are "
            "known")
    return ACTIVATIONS[name]


def _refuse_unknown_parts(values: Config) -> None:
    for key in ("num_local_experts", "num_experts"):
        if values.get(key):
            raise CheckpointError(f"config.json: {key} is {values[key]!r}; "
                                  "mixtures of experts have no programs")


def _attention(values: Config, family: str,
               head: int) -> tuple[LayerAttention, ...]:
    """One a layer: windows and, for Gemma 3, rotations alternate."""
    whole, local = (_rotation(values, head, rope) for rope in _ropes(values))
    window = values.get("sliding_window")
    sliding = _sliding_layers(values, family)
    return tuple(LayerAttention(local, window) if slides else
                 LayerAttention(whole, None) for slides in sliding)


def _sliding_layers(values: Config, family: str) -> list[bool]:
    """True for each layer that sees a window alone."""
    count = _number(values, "num_hidden_layers")
    kinds = values.get("layer_types")
    if isinstance(kinds, list) and len(kinds) == count:
        return [kind == "sliding_attention" for kind in kinds]
    if not values.get("sliding_window"):
        return [False] * count
    if family == "gemma2":
        return [i % 2 == 0 for i in range(count)]
    if family == "gemma3_text":
        pattern = _number(values, "sliding_window_pattern")
        return [(i + 1) % pattern != 0 for i in range(count)]
    if family.startswith("qwen"):
        first = _number(values, "max_window_layers", count)
        return [bool(values.get("use_sliding_window")) and i >= first
                for i in range(count)]
    return [True] * count


def _ropes(values: Config) -> tuple[Config, Config]:
    """The rotation's parameters of layers that see all, and of those with a
    window, wherever this version of the config has them: in rope_parameters, by
    kind of layer or not; or in rope_scaling and keys of their own."""
    rope = values.get("rope_parameters") or values.get("rope_scaling") or {}
    if isinstance(rope.get("full_attention"), dict):
        return rope["full_attention"], rope.get("sliding_attention", {})
    if "rope_local_base_freq" in values:
        return rope, {"rope_theta": values["rope_local_base_freq"]}
    return rope, rope


def _rotation(values: Config, head: int, rope: Config) -> Rotation:
    theta = float(rope.get("rope_theta", values.get("rope_theta", 1e4)))
    part = rope.get("partial_rotary_factor",
                    values.get("partial_rotary_factor", 1.0))
    width = int(head * part)
    frequencies = [theta ** (-2 * j / width) for j in range(width // 2)]
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind == "linear":
        frequencies = [f / rope["factor"] for f in frequencies]
    elif kind == "llama3":
        frequencies = [_llama3(f, rope) for f in frequencies]
    elif kind != "default":
        raise CheckpointError(f"config.json: rotary positions of type {kind!r}; "
                              "default, linear and llama3 are known")
    return Rotation(width, tuple(frequencies))


def _llama3(frequency: float, rope: Config) -> float:
    """Llama 3.1's: waves that are long for the original context are stretched
    by `factor`, short ones kept, and those between blended."""
    length, low, high = (float(rope[key]) for key in (
        "original_max_position_embeddings", "low_freq_factor", "high_freq_factor"))
    turns = length * frequency / (2 * math.pi)
    kept = min(1.0, max(0.0, (turns - low) / (high - low)))
    return frequency * (kept + (1 - kept) / float(rope["factor"]))
