# SPDX-License-Identifier: Apache-2.0
"""Sentence embeddings by a model on a server: prints how alike sentences are.

Usage: embed.py DIRECTORY [SERVER]   (DIRECTORY: of a BERT, as all-MiniLM-L6-v2)
"""

import sys

import qgemm.models

SENTENCES = (
    "How do I reset my password?",
    "I forgot my login credentials and cannot get into my account.",
    "It will rain tomorrow.",
)


def main(directory, server="127.0.0.1:50051"):
    client = qgemm.connect(server)
    model = qgemm.models.load(client, directory, format="kbit5")
    vectors = model.embed(SENTENCES)
    print((vectors @ vectors.T).round(3))


if __name__ == "__main__":
    main(*sys.argv[1:])
