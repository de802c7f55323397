# SPDX-License-Identifier: Apache-2.0
"""Greedy text of a decoder on a server, token by token.

Usage: generate.py DIRECTORY TEXT [SERVER]   (DIRECTORY: of a Llama, Qwen, Gemma, ...,
with its tokenizer.json)
"""

import os
import sys

import tokenizers

import qgemm.models


def main(directory, text, server="127.0.0.1:50051"):
    tokenizer = tokenizers.Tokenizer.from_file(
        os.path.join(directory, "tokenizer.json"))
    model = qgemm.models.load(qgemm.connect(server), directory)
    made = []
    for token in model.generate(tokenizer.encode(text).ids, 32):
        made.append(token)
        print("\r" + text + tokenizer.decode(made), end="", flush=True)
    print()


if __name__ == "__main__":
    main(*sys.argv[1:])
