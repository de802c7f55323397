# SPDX-License-Identifier: Apache-2.0
"""Writes checkpoints for tests: safetensors, GPTQ and AWQ by hand, GGUF by the
gguf package. Values are those of a seeded generator."""

import json
import os
import struct

import gguf
import numpy as np

NAMES = {"f4": "F32", "f2": "F16", "u2": "BF16", "i4": "I32", "i8": "I64"}


def write_safetensors(path, tensors, **entries):
    """tensors: arrays by name, <u2 as BF16. entries: more of the header."""
    header, offset = dict(entries), 0
    for name, array in tensors.items():
        header[name] = {
            "dtype": NAMES[array.dtype.str[1:]], "shape": list(array.shape),
            "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in tensors.values():
            file.write(array.tobytes())


def write_json(folder, name, value):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        json.dump(value, file)


def write_gguf(path, tensors, types):
    """fp32 arrays by name; types: the GGMLQuantizationType of some, which are
    quantized by the package, else random blocks of the type."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_uint32("llama.block_count", 1)
    writer.add_array("tokenizer.ggml.tokens", ["a", "b", "c"])
    for name, array in tensors.items():
        kind = types.get(name)
        if kind is None:
            writer.add_tensor(name, array)
        else:
            writer.add_tensor(name, blocks_of(array, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def blocks_of(array, kind):
    """uint8 [n, bytes of a row]. K-quants, which the package cannot make, are
    random, with scales that are small and finite."""
    try:
        return gguf.quants.quantize(array, kind)
    except NotImplementedError:
        pass
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    rows, columns = array.shape
    random = np.random.default_rng(7)
    blocks = random.integers(
        0, 256, (rows * columns // elements, size), np.uint8)
    halves = (208,) if kind == gguf.GGMLQuantizationType.Q6_K else (0, 2)
    for at in halves:
        scale = random.uniform(0.001, 0.01, len(blocks)).astype("<f2")
        blocks[:, at:at + 2] = scale.view(np.uint8).reshape(-1, 2)
    return blocks.reshape(rows, -1)


def pack_nibbles(codes, order=range(8)):
    """int32 of eight codes each along the last axis; nibble i is code
    order[i]."""
    groups = codes.reshape(*codes.shape[:-1], -1, 8).astype(np.uint32)
    words = np.zeros(groups.shape[:-1], np.uint32)
    for i, j in enumerate(order):
        words |= groups[..., j] << np.uint32(4 * i)
    return words.view(np.int32)


def gptq_layer(base, random, n, k, group_size, version, act_order=False,
               scale=0.1):
    """(tensors, W in fp32): the layer's tensors and what they stand for. scale: the
    largest of a group."""
    groups = k // group_size
    codes = random.integers(0, 16, (k, n))
    zeros = random.integers(1, 16, (groups, n))
    scales = random.uniform(0.1, 1, (groups, n)) * scale
    scales = scales.astype("<f2")
    index = np.arange(k, dtype=np.int32) // group_size
    if act_order:
        index = random.permutation(index)
    stored = zeros - 1 if version == 1 else zeros
    tensors = {
        f"{base}.qweight": pack_nibbles(codes.T).T.copy(),
        f"{base}.qzeros": pack_nibbles(stored), f"{base}.scales": scales,
        f"{base}.g_idx": index}
    w = (codes - zeros[index]) * scales[index].astype(np.float32)
    return tensors, np.ascontiguousarray(w.T, np.float32)


def awq_layer(base, random, n, k, group_size, scale=0.1):
    """The same of AWQ."""
    order = (0, 2, 4, 6, 1, 3, 5, 7)
    groups = k // group_size
    codes = random.integers(0, 16, (k, n))
    zeros = random.integers(0, 16, (groups, n))
    scales = random.uniform(0.1, 1, (groups, n)) * scale
    scales = scales.astype("<f2")
    tensors = {
        f"{base}.qweight": pack_nibbles(codes, order),
        f"{base}.qzeros": pack_nibbles(zeros, order), f"{base}.scales": scales}
    index = np.arange(k) // group_size
    w = (codes - zeros[index]) * scales[index].astype(np.float32)
    return tensors, np.ascontiguousarray(w.T, np.float32)
