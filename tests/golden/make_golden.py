#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes golden.txt and golden.bin, or with --check says whether the files
beside this script are what it would make, and runs the Python example of
docs/formats.md. Needs numpy.

golden.txt is an index, one keyword and its operands a line; a line that
starts with `case` opens a case. Operands called <at> are two numbers, offset
and size in bytes inside golden.bin.

  case <name>
  spec <the canonical text, its line ends as spaces>
  id <64 hexadecimal digits>
  section <name> <at>         in the order of the upload
  flushed <count>             blocks whose scale was rounded to zero
  tensor_scale <decimal>
  weights <at>                fp64 [n, k], columns as the caller numbers them
  row_digests <at>            or the first 8 bytes of each row's SHA-256
  permutation <at>            int32 [k], if there is one
  encode <field=value ...>    EncodeWeights makes these sections
  input <at>                  from this matrix, fp32 [n, k]
"""

import hashlib
import os
import re
import sys

import numpy as np

import golden_cases
import quantizer_cases

FOLDER = os.path.dirname(os.path.abspath(__file__))
WHOLE_WEIGHTS_LIMIT = 400  # elements; larger matrices are kept as digests


class Golden:
    """The two files as they grow; equal byte strings are stored once."""

    def __init__(self):
        self.lines = ["# Made by make_golden.py, which says what it means."]
        self.blob = bytearray()
        self.places = {}
        self.names = set()

    def place(self, data):
        data = bytes(data)
        if data not in self.places:
            self.places[data] = len(self.blob)
            self.blob += data
        return f"{self.places[data]} {len(data)}"

    def case(self, name, spec, sections, weights, **more):
        assert name not in self.names, name
        self.names.add(name)
        order = ["codebook", "group_index", "bias", "scales", "zeros", "codes"]
        assert list(sections) == [s for s in order if s in sections], name
        text = "qgemm-weights-v1\n" + "".join(
            f"{key}={value}\n" for key, value in spec.items())
        digest = hashlib.sha256(text.encode())
        self.lines += ["", f"case {name}",
                       f"spec {text[:-1].replace(chr(10), ' ')}"]
        for data in sections.values():
            digest.update(data)
        self.lines.append(f"id {digest.hexdigest()}")
        for section, data in sections.items():
            self.lines.append(f"section {section} {self.place(data)}")
        self.lines.append(f"flushed {more.get('flushed', 0)}")
        self.lines.append(f"tensor_scale {more.get('tensor_scale', 1.0)!r}")
        self.weights(np.asarray(weights, np.float64), spec)
        if "permutation" in more:
            permutation = np.asarray(more["permutation"], "<i4").tobytes()
            self.lines.append(f"permutation {self.place(permutation)}")
        if "encode" in more:
            self.lines.append(f"encode {more['encode']}")
            matrix = np.asarray(more["input"], "<f4").tobytes()
            self.lines.append(f"input {self.place(matrix)}")

    def weights(self, weights, spec):
        assert weights.shape == (spec["n"], spec["k"]), weights.shape
        rows = [(row + 0.0).astype("<f8").tobytes() for row in weights]
        if weights.size <= WHOLE_WEIGHTS_LIMIT:
            self.lines.append(f"weights {self.place(b''.join(rows))}")
            return
        digests = b"".join(hashlib.sha256(row).digest()[:8] for row in rows)
        self.lines.append(f"row_digests {self.place(digests)}")

    def files(self):
        return {"golden.txt": ("\n".join(self.lines) + "\n").encode(),
                "golden.bin": bytes(self.blob)}


def main():
    golden = Golden()
    for add_cases in golden_cases.ALL + quantizer_cases.ALL:
        add_cases(golden)
    files = golden.files()
    if sys.argv[1:] == ["--check"]:
        return check(files) or check_documented_id()
    for name, data in files.items():
        with open(os.path.join(FOLDER, name), "wb") as file:
            file.write(data)
        print(f"{name}: {len(data)} bytes")
    print(f"{len(golden.names)} cases")
    return 0


def check(files):
    stale = []
    for name, data in files.items():
        with open(os.path.join(FOLDER, name), "rb") as file:
            if file.read() != data:
                stale.append(name)
    print("make_golden: " + ("stale: " + " ".join(stale) if stale else "same"))
    return 1 if stale else 0


def check_documented_id():
    """Runs the Python example of docs/formats.md, which asserts its id."""
    with open(os.path.join(FOLDER, "../../docs/formats.md"),
              encoding="utf-8") as page:
        examples = re.findall(r"```python\n(.*?)```", page.read(), re.DOTALL)
    assert examples, "docs/formats.md has no Python example"
    for example in examples:
        names = {}
        exec(example, names)  # pylint: disable=exec-used
        assert len(names["weight_id"]) == 64
    print(f"make_golden: {len(examples)} documented ids hold")
    return 0


if __name__ == "__main__":
    sys.exit(main())
