# SPDX-License-Identifier: Apache-2.0
"""Whole models onto a server: safetensors, GGUF, GPTQ and AWQ checkpoints.

tensors <- safetensors, gguf, ggml_blocks <- checkpoint, layers <- int4 <- plan
<- load <- command.
"""

from __future__ import annotations

from qgemm.loading.checkpoint import Checkpoint, open_checkpoint
from qgemm.loading.load import LoadedModel, load_model, plan_model
from qgemm.loading.plan import Entry, Options, Plan
from qgemm.loading.sources import CheckpointError
from qgemm.loading.tensors import Tensor

__all__ = [
    "Checkpoint", "CheckpointError", "Entry", "LoadedModel", "Options", "Plan",
    "Tensor", "load_model", "open_checkpoint", "plan_model",
]
