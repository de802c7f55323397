# SPDX-License-Identifier: Apache-2.0
"""A torch model's linear layers on a server, in place; or its layers as programs.

    model = AutoModelForCausalLM.from_pretrained(path)
    qgemm.torch.offload(model, client, format="kbit4")
    model.generate(...)                      # as before, for inference alone

    decoder = qgemm.torch.by_programs(model, client, format="kbit4")
    list(decoder.generate(tokens, 32))       # a call a layer, attention in torch
"""

from __future__ import annotations

import fnmatch
import threading
from dataclasses import dataclass, field
from typing import Any, Optional, Sequence, Union

import torch

from qgemm import formats, models
from qgemm.loading import Checkpoint, Tensor
from qgemm.loading.sources import Memory

# Siblings that read the same x: they go to the server together.
GROUPS = (("q_proj", "k_proj", "v_proj"), ("query", "key", "value"),
          ("gate_proj", "up_proj"))


@dataclass
class Offloaded:
    """What became of a model's linear layers."""
    layers: dict[str, Any] = field(default_factory=dict)  # WeightsInfo by module
    skipped: list[str] = field(default_factory=list)      # modules left as they are

    @property
    def resident_bytes(self) -> int:
        """Bytes that the layers take on the server, each once."""
        return sum({info.id: info.resident_bytes
                    for info in self.layers.values()}.values())


def offload(model: torch.nn.Module, client: Any, *,
            format: Union[str, formats.Format] = "kbit4", prefix: str = "",
            include: Sequence[str] = (), exclude: Sequence[str] = (),
            rounding: Optional[str] = None) -> Offloaded:
    """Uploads the model's nn.Linear modules and replaces each by a RemoteLinear,
    which frees its weights here. Inference alone: no gradients.

    format: as client.load's. include, exclude: patterns of module names (as of a
    shell). prefix: stands before them on the server. rounding: fp16 or bf16, the
    type that fp32 activations are rounded to. Siblings of GROUPS, such as q, k and
    v, are one trip to the server. A module whose shape the format does not take
    raises ValueError; what was replaced until then stays so."""
    made = Offloaded()
    for parent_name, parent in list(model.named_modules()):
        remote: dict[str, RemoteLinear] = {}
        for child, module in list(parent.named_children()):
            name = f"{parent_name}.{child}" if parent_name else child
            if type(module) is not torch.nn.Linear:
                continue
            if not _wanted(name, include, exclude):
                made.skipped.append(name)
                continue
            answer = client.load(prefix + name, module.weight, bias=module.bias,
                                 format=format)
            made.layers[name] = answer.weights
            remote[child] = RemoteLinear(client, prefix + name, module, rounding)
            setattr(parent, child, remote[child])
        _group(client, remote)
    return made


def _wanted(name: str, include: Sequence[str], exclude: Sequence[str]) -> bool:
    def matches(patterns: Sequence[str]) -> bool:
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)

    return (not include or matches(include)) and not matches(exclude)


def _group(client: Any, remote: dict[str, "RemoteLinear"]) -> None:
    for names in GROUPS:
        members = [remote[name] for name in names if name in remote]
        if len(members) > 1:
            together = _Together(client, members)
            for member in members:
                member.together = together


class RemoteLinear(torch.nn.Module):
    """x W^T + b on a server. Takes and gives x's type and device."""

    def __init__(self, client: Any, weights: str, linear: torch.nn.Linear,
                 rounding: Optional[str]):
        super().__init__()
        self.client = client
        self.weights = weights
        self.in_features = linear.in_features
        self.out_features = linear.out_features
        self.rounding = rounding
        self.together: Optional[_Together] = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.together is not None:
            return self.together.product(self, x)
        return self.product(x)

    def product(self, x: torch.Tensor) -> torch.Tensor:
        """The call of this layer alone."""
        made: torch.Tensor = self.client.gemm(
            self.weights, x, **self.options(x)).to(x.device)
        return made

    def options(self, x: torch.Tensor) -> dict[str, Any]:
        return {"rounding": self.rounding} if x.dtype == torch.float32 else {}

    def extra_repr(self) -> str:
        return (f"in_features={self.in_features}, "
                f"out_features={self.out_features}, weights={self.weights!r}")


class _Together:
    """Layers that are asked for the same x, one after the other: the first call
    has the server compute all. Thread-safe; each thread has its own x.

    Where they turn out to be asked for different x, as q and k of attention to
    another sequence, they go alone from then on."""

    def __init__(self, client: Any, members: Sequence[RemoteLinear]):
        self._client = client
        self._members = members
        self._alone = False
        self._of_thread = threading.local()  # x, and products by member

    def product(self, member: RemoteLinear, x: torch.Tensor) -> torch.Tensor:
        if self._alone:
            return member.product(x)
        held: dict[int, torch.Tensor] = getattr(self._of_thread, "held", {})
        if getattr(self._of_thread, "x", None) is x and id(member) in held:
            made = held.pop(id(member))
            if not held:
                self._of_thread.x = None
            return made
        if held:
            self._alone, self._of_thread.held = True, {}
            self._of_thread.x = None
            return member.product(x)
        products = self._client.gemm(
            [each.weights for each in self._members], x, **member.options(x))
        held = {id(each): made.to(x.device)
                for each, made in zip(self._members, products)}
        self._of_thread.x, self._of_thread.held = x, held
        return held.pop(id(member))


# Layers as programs ------------------------------------------------------

TYPES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}


def by_programs(model: torch.nn.Module, client: Any, *, prefix: str,
                **options: Any) -> models.Decoder:
    """The Hugging Face decoder `model` as a qgemm.models.Decoder, whose attention is
    computed by torch. options: as models.load's. The model is read while it is
    loaded; its embeddings are kept."""
    config: Any = model.config
    tensors = {name: _tensor(name, value)
               for name, value in model.state_dict().items()}
    decoder: models.Decoder = models.load(
        client, Checkpoint("a torch model", tensors, config.to_dict()),
        prefix=prefix, attend=_attend, **options)
    return decoder


def _tensor(name: str, value: torch.Tensor) -> Tensor:
    value = value.detach().cpu().contiguous()
    kind = TYPES.get(value.dtype, str(value.dtype))
    bits = value.view(torch.int16) if kind == "BF16" else value
    data = bits.numpy().reshape(-1).view("u1")
    return Tensor(name, kind, tuple(value.shape), Memory(data), 0, data.nbytes,
                  "a torch model")


def _attend(q: Any, keys: Any, values: Any, hidden: Any,
            cap: Optional[float]) -> Any:
    """models.attention.attend by torch, on the host."""
    queries, k, v = (torch.from_numpy(x) for x in (q, keys, values))
    scores = queries @ k.permute(1, 2, 0)[:, None]
    if cap is not None:
        scores = torch.tanh(scores / cap) * cap
    scores.masked_fill_(torch.from_numpy(hidden), float("-inf"))
    return (scores.softmax(-1) @ v.transpose(0, 1)[:, None]).numpy()
