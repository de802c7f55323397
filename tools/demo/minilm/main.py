# SPDX-License-Identifier: Apache-2.0
"""Runs all-MiniLM-L6-v2 on a qgemm_server and prints what it gives.

Usage: main.py ADDRESS

A sentence's embedding is made product by product and by programs, with weights
in fp16 and in kbit5, and compared with a framework's in fp32. Exits 1 if a
cosine is below its limit, or if a sentence's nearest is not its paraphrase.
tools/demo/minilm.sh makes what this needs.
"""

import sys
import time
from typing import NamedTuple

import numpy as np
from qgemm.v1 import qgemm_pb2 as pb

import framework
import model as minilm
import service as qgemm

# Each two in turn say nearly the same.
SENTENCES = (
    "How do I reset my password?",
    "I forgot my login credentials and cannot get into my account.",
    "The cat sleeps on the warm windowsill all afternoon.",
    "A kitten is dozing in the sun by the window.",
    "Matrix multiplication takes most of the time of a transformer.",
    "Nearly all the work in a language model is done by products of large "
    "matrices.",
    "It will rain tomorrow.",
    "The forecast for the coming day promises showers from early morning "
    "until the evening.",
)
REPETITIONS = 5


class Form(NamedTuple):
    """A form in which the server keeps the weights."""
    name: str
    target: dict       # of DenseFormat
    min_cosine: float  # to the framework's embeddings


FORMS = (
    Form("fp16", {"resident_type": pb.FLOAT_TYPE_FP16}, 0.9999),
    Form("kbit5", {"quantize_kbit": pb.KbitFormat(bits=5)}, 0.99),
)


def cosine(a, b):
    """In fp64, so that digits behind 0.9999999 are the embeddings'."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    return a @ b / np.sqrt((a @ a) * (b @ b))


def print_row(*cells):
    print("{:<8} {:>9} {:<18} {:>5} {:>10} {:>9} {:>13}".format(*cells))


class Demo:
    def __init__(self, address):
        self.model = minilm.Model()
        self.ids = [self.model.tokens(s) for s in SENTENCES]
        self.service = qgemm.Service(address)
        self.expected = []  # the framework's embeddings
        self.failures = []

    def run(self):
        print_row("weights", "bytes", "computed by", "calls", "cosine",
                  "ms a call", "ms a sentence")
        self.run_framework()
        programs = self.service.runs_programs()
        for form in FORMS:
            prefix = f"demo/minilm/{form.name}"
            held = qgemm.load_weights(self.service, self.model, prefix,
                                      form.target)
            self.show(form, held, "Gemm calls",
                      qgemm.ByGemms(self.service, self.model, prefix))
            if programs:
                self.show(form, held, "programs",
                          qgemm.ByPrograms(self.service, self.model, prefix))
        if not programs:
            print("programs: not offered by this backend")

    def run_framework(self):
        reference = framework.Framework(self.model)

        def embed(ids):
            return minilm.pool(reference.last_hidden_state(ids))

        self.expected = [embed(ids) for ids in self.ids]
        took_ms, _ = self.measure(embed)
        print_row("fp32", "-", framework.NAME, "-", "-", "-",
                  f"{took_ms:.1f}")

    def show(self, form, held_bytes, label, between_attentions):
        """Prints a line; adds what is wrong with it to failures."""
        def embed(ids):
            return minilm.encode(self.model, ids, between_attentions)

        made = [embed(ids) for ids in self.ids]
        worst = min(map(cosine, made, self.expected))
        calls_before = self.service.calls
        took_ms, in_calls_ms = self.measure(embed)
        calls = ((self.service.calls - calls_before) /
                 (REPETITIONS * len(SENTENCES)))
        print_row(form.name, held_bytes, label, f"{calls:g}", f"{worst:.7f}",
                  f"{in_calls_ms / calls:.2f}", f"{took_ms:.1f}")
        if worst < form.min_cosine:
            self.failures.append(f"{form.name} by {label}: cosine "
                                 f"{worst:.7f}, below {form.min_cosine}")
        self.check_nearest(f"{form.name} by {label}", made)

    def measure(self, embed):
        """Milliseconds a sentence, and those of them in calls, of the median
        of REPETITIONS passes over all sentences."""
        passes = []
        for _ in range(REPETITIONS):
            begin, in_calls = time.perf_counter(), self.service.seconds
            for ids in self.ids:
                embed(ids)
            passes.append((time.perf_counter() - begin,
                           self.service.seconds - in_calls))
        median = sorted(passes)[REPETITIONS // 2]
        return tuple(1e3 * seconds / len(SENTENCES) for seconds in median)

    def check_nearest(self, label, made):
        alike = np.array(made) @ np.array(made).T - 2 * np.eye(len(made))
        for i, nearest in enumerate(alike.argmax(axis=1)):
            if nearest != i ^ 1:
                self.failures.append(
                    f"{label}: {SENTENCES[i]!r} is nearest to "
                    f"{SENTENCES[nearest]!r}")


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        raise SystemExit(__doc__)
    demo = Demo(sys.argv[1])
    demo.run()
    for failure in demo.failures:
        print(f"minilm: {failure}", file=sys.stderr)
    return 1 if demo.failures else 0


if __name__ == "__main__":
    sys.exit(main())
