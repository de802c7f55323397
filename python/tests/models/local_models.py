# SPDX-License-Identifier: Apache-2.0
"""Small randomly initialised models of transformers, and what rounding the
operands of products does to their logits.

Debian 12 has torch 1.13; transformers 4.51 wants names of later ones, none of
which its models of plain floats call: they are put in place before it is imported.
"""

import os
import sys
import types

import numpy as np
import torch


def _add_later_names():
    if hasattr(torch, "compiler"):
        return
    tensor = types.ModuleType("torch.distributed.tensor")
    tensor.DTensor = type("DTensor", (), {})
    tensor.Placement = tensor.Replicate = tensor.Shard = None
    sys.modules[tensor.__name__] = torch.distributed.tensor = tensor
    torch.compiler = types.ModuleType("torch.compiler")
    torch.compiler.disable = lambda recursive=True: lambda function: function
    torch.compiler.is_compiling = lambda: False
    for name in ("float8_e4m3fn", "float8_e5m2", "uint16", "uint32", "uint64"):
        setattr(torch, name, name)


_add_later_names()
os.environ["HF_HUB_OFFLINE"] = "1"

import transformers  # noqa: E402  after the names that it wants

SIZES = {
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
    "vocab_size": 160, "max_position_embeddings": 128, "pad_token_id": 0,
    "bos_token_id": 1, "eos_token_id": 2, "initializer_range": 0.2}
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "qkv_proj", "query", "key", "value")
FAMILIES = {
    "llama": {"rope_scaling": {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 32}},
    "mistral": {"sliding_window": 6},
    "qwen2": {}, "qwen3": {},
    "gemma2": {"sliding_window": 6, "query_pre_attn_scalar": 16},
    "gemma3_text": {"sliding_window": 6, "query_pre_attn_scalar": 16,
                    "sliding_window_pattern": 2},
    "phi3": {},
}


def make(family, folder, dtype=torch.float16):
    """A model of seeded random weights, saved in `folder` in dtype; returns it
    in fp32 with the values that were saved."""
    torch.manual_seed(3)
    config = transformers.AutoConfig.for_model(
        family, **SIZES, **FAMILIES[family], attn_implementation="eager")
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for name, row in model.named_parameters():
            if row.dim() == 1:  # norms and biases, which are all 1 or 0 at first
                row += 0.2 * torch.randn_like(row)
    model.to(dtype).save_pretrained(folder, safe_serialization=True)
    return model.float()


def logits(model, tokens):
    with torch.no_grad():
        answer = model(torch.tensor([list(tokens)]), use_cache=False)
        return answer.logits[0].numpy()


def with_rounded_operands(model, run, dtype=torch.float16):
    """The result of run() where operands of every product, and q, k and v, are
    rounded to dtype and back, as the server rounds them."""
    hooks = []
    for name, module in model.named_modules():
        if not isinstance(module, torch.nn.Linear):
            continue
        hooks.append(module.register_forward_pre_hook(
            lambda _, x: (x[0].to(dtype).float(),)))
        if name.endswith(PROJECTIONS):
            hooks.append(module.register_forward_hook(
                lambda _, x, y: y.to(dtype).float()))
    try:
        return run()
    finally:
        for hook in hooks:
            hook.remove()


def results_and_tolerance(model, run, prompts):
    """run(model, prompt) of each prompt, and the tolerance for the server's.

    r is how far rounding the operands alone, which the server does, moves a result;
    the largest of all prompts. The server's sums have another order, which turns a
    rounding here and there, so that its error is another sample of the same kind:
    4 r bounds it."""
    plain = [run(model, prompt) for prompt in prompts]
    rounded = [with_rounded_operands(model, lambda: run(model, prompt))
               for prompt in prompts]
    return plain, 4 * np.max(np.abs(np.subtract(plain, rounded)))
