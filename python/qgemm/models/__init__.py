# SPDX-License-Identifier: Apache-2.0
"""Whole models by programs: a call a layer, attention at the client.

    model = qgemm.models.load(client, "Llama-3.2-1B", format="kbit5")
    for token in model.generate(tokens, 32): ...

    model = qgemm.models.load(client, "all-MiniLM-L6-v2", format="kbit5")
    vectors = model.embed(["How do I reset my password?"])

families <- programs, attention <- decoder, encoder.
"""

from __future__ import annotations

import os
from typing import Any, Optional, Union

from qgemm.loading import Checkpoint, load_model, open_checkpoint
from qgemm.loading.plan import FormatLike
from qgemm.models.attention import Attend, attend
from qgemm.models.decoder import Decoder
from qgemm.models.encoder import Encoder
from qgemm.models.families import (BERT_FAMILIES, DecoderSpec, EncoderSpec,
                                   decoder_spec, encoder_spec)

__all__ = ["Decoder", "DecoderSpec", "Encoder", "EncoderSpec", "decoder_spec",
           "encoder_spec", "load"]


def load(client: Any, path: Union[str, os.PathLike[str], Checkpoint], *,
         format: Optional[FormatLike] = None, rounding: Optional[str] = None,
         prefix: Optional[str] = None, attend: Attend = attend,
         **options: Any) -> Any:
    """Loads a Hugging Face directory's layers and the programs over them: a Decoder,
    or an Encoder for a BERT.

    format, options: as load_model's. rounding: fp16 or bf16, the type of products'
    operands and of what attention reads; by default bf16 for a checkpoint in BF16,
    else fp16. prefix: of all names on the server; by default the directory's name.
    attend: a decoder's attention, by default models.attention.attend.
    """
    checkpoint = path if isinstance(path, Checkpoint) else open_checkpoint(path)
    if prefix is None:
        prefix = os.path.basename(os.path.abspath(checkpoint.path)) + "/"
    rounding = rounding or _rounding(checkpoint)
    if checkpoint.config.get("model_type") in BERT_FAMILIES:
        encoder = encoder_spec(checkpoint.config)
        load_model(client, checkpoint, format=format, prefix=prefix,
                   **{"exclude": _UNUSED_OF_ENCODERS, **options})
        return Encoder(client, checkpoint, encoder, prefix, rounding)
    decoder = decoder_spec(checkpoint.config)
    load_model(client, checkpoint, format=format, prefix=prefix, **options)
    return Decoder(client, checkpoint, decoder, prefix, rounding, attend)


# The first layer's q, k and v are the client's; heads are not run.
_UNUSED_OF_ENCODERS = ("*encoder.layer.0.attention.self.*", "*pooler.*", "cls.*",
                       "lm_head.*", "classifier.*")


def _rounding(checkpoint: Checkpoint) -> str:
    types = {tensor.type for tensor in checkpoint.tensors.values()}
    return "bf16" if "BF16" in types else "fp16"
