# SPDX-License-Identifier: Apache-2.0
"""A checkpoint as a whole: its tensors, its config, how it is quantized."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Any, Optional, Union

from qgemm.loading.gguf import MAGIC, read_gguf
from qgemm.loading.safetensors import read_safetensors
from qgemm.loading.sources import CheckpointError
from qgemm.loading.tensors import Tensor

INDEX = "model.safetensors.index.json"
MAX_JSON_BYTES = 64 << 20


@dataclass(frozen=True)
class Checkpoint:
    """Tensors by name, in the files' order; nothing is read before it is used.

    config is config.json's object, empty where there is none; of a GGUF file,
    its metadata. quantization is the quantization_config, None where there is
    none.
    """
    path: str
    tensors: dict[str, Tensor]
    config: dict[str, Any] = field(default_factory=dict)
    quantization: Optional[dict[str, Any]] = None
    is_gguf: bool = False


def open_checkpoint(path: Union[str, os.PathLike[str]]) -> Checkpoint:
    """Opens a safetensors or GGUF file, or a Hugging Face directory.

    Raises CheckpointError if the files are not what they say they are.
    """
    path = os.fspath(path)
    if os.path.isdir(path):
        return _open_directory(path)
    if _begins_with(path, MAGIC):
        file = read_gguf(path)
        return Checkpoint(path, file.tensors, file.metadata, is_gguf=True)
    return _with_config(path, os.path.dirname(path), read_safetensors(path))


def _begins_with(path: str, magic: bytes) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(len(magic)) == magic
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}") from error


def _open_directory(path: str) -> Checkpoint:
    if os.path.exists(os.path.join(path, INDEX)):
        return _with_config(path, path, _read_shards(path))
    names = sorted(name for name in os.listdir(path)
                   if name.endswith((".safetensors", ".gguf")))
    if not names:
        raise CheckpointError(
            f"{path}: no .safetensors or .gguf file; other files, as .bin and "
            ".pt, are not read: save the model with safe_serialization")
    if any(name.endswith(".gguf") for name in names):
        if len(names) > 1:
            raise CheckpointError(
                f"{path}: {len(names)} files of weights ({', '.join(names)}): "
                "name one")
        return open_checkpoint(os.path.join(path, names[0]))
    tensors: dict[str, Tensor] = {}
    for name in names:
        _add(tensors, read_safetensors(os.path.join(path, name)))
    return _with_config(path, path, tensors)


def _read_shards(path: str) -> dict[str, Tensor]:
    """The tensors of the index, each from the file that it names."""
    index = read_json(os.path.join(path, INDEX))
    places = index.get("weight_map")
    if not isinstance(places, dict) or not all(
            isinstance(file, str) for file in places.values()):
        raise CheckpointError(f"{path}/{INDEX}: weight_map is no map of names")
    tensors: dict[str, Tensor] = {}
    for file in sorted(set(places.values())):
        if file != os.path.basename(file) or not file.endswith(".safetensors"):
            raise CheckpointError(
                f"{path}/{INDEX}: {file!r} is no .safetensors file of the "
                "directory")
        _add(tensors, read_safetensors(os.path.join(path, file)))
    for name, file in places.items():
        found = tensors.get(name)
        if found is None or os.path.basename(found.file) != file:
            raise CheckpointError(
                f"{path}/{INDEX}: tensor {name!r} is not in {file}")
    return tensors


def _add(tensors: dict[str, Tensor], more: dict[str, Tensor]) -> None:
    for name, tensor in more.items():
        if name in tensors:
            raise CheckpointError(
                f"{tensor}: is in {tensors[name].file} too")
        tensors[name] = tensor


def _with_config(path: str, directory: str,
                 tensors: dict[str, Tensor]) -> Checkpoint:
    """Adds config.json; or the quantize_config.json of older GPTQ writers."""
    config: dict[str, Any] = {}
    file = os.path.join(directory, "config.json")
    if os.path.exists(file):
        config = read_json(file)
    quantization = config.get("quantization_config")
    file = os.path.join(directory, "quantize_config.json")
    if quantization is None and os.path.exists(file):
        quantization = {"quant_method": "gptq", **read_json(file)}
    if quantization is not None and not isinstance(quantization, dict):
        raise CheckpointError(f"{path}: quantization_config is no JSON object")
    return Checkpoint(path, tensors, config, quantization)


def read_json(path: str) -> dict[str, Any]:
    """The JSON object in the file."""
    try:
        with open(path, "rb") as file:
            text = file.read(MAX_JSON_BYTES + 1)
        if len(text) > MAX_JSON_BYTES:
            raise CheckpointError(
                f"{path}: more than {MAX_JSON_BYTES} bytes of JSON")
        value = json.loads(text.decode("utf-8"))
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: this is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{path}: this is no JSON object")
    return value
