# SPDX-License-Identifier: Apache-2.0
"""Tests that the tree speaks the field's words.

Each private word that the tree once had has a term of the field, or a plain
one, in its place. Decisions may name them where they record the renaming.
A comment of C++ begins with a noun or a verb in the present.
"""

import os
import re
import unittest

import source_tree

# What is refused -> what to write instead.
WORDS = {
    r"wqa16": "decode_gemm or prefill_gemm",
    r"yardstick": "baseline",
    r"page-locked|page_locked": "pinned",
    r"second-level cache": "L2",
    r"\bmultiprocessors?\b": "SM, sm_count",
    r"(?<!DMA )copy[ _]?engine": "TMA, or DMA copy engine",
    r"slab": "chunk of dequantized weights",
    r"\b(wide|small|large) family\b": "prefill or decode kernel, cuBLAS path",
    r"\balways_?(small|wide|large)\b": "KernelPath",
    r"c_by_fours": "vectorized_store",
    r"AllowNextKernel|WaitForPreviousKernel":
        "LaunchDependents, GridDependencyWait",
    r"(Chain|Block)Adder": "ScaledMainloop, BlockScaledMainloop",
    r"row_?moves": "HostTransfer",
    r"upload_?lane": "UploadContext",
    r"EndAtHome|at home\b": "PostCompletions; name the executor",
    r"not_?offered": "UnimplementedService",
    r"GemmIntake|TakeGemm": "GemmRequestBuilder",
    r"GemmOptions": "GemmRequest",
    r"StoredWeights|Weights(Description|Listing)": "WeightsInfo",
    r"data_path": "nothing: there is one",
    r"\blegal: ": "say what is allowed: 'expected one of …'",
}
ENDINGS = (".h", ".cc", ".cu", ".cuh", ".proto", ".py", ".sh", ".bzl", ".md",
           ".txt", "BUILD", "WORKSPACE")
LEFT_OUT = ("docs/decisions/", "tests/tree/")
REFUSED = [(re.compile(pattern, re.IGNORECASE), instead)
           for pattern, instead in WORDS.items()]


def refused_words(path, text):
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, instead in REFUSED:
            match = pattern.search(line)
            if match:
                yield (f"{path}:{number}: '{match.group()}': "
                       f"write {instead}")

RIDDLE = re.compile(r"\s*// (What|Whether|Of|How|Where|Who|Whose|Whom)\b")


def riddles(file):
    """Comments that begin with a free relative: the noun is missing."""
    before = ""
    for number, line in enumerate(file.lines, 1):
        if RIDDLE.match(line) and (not before.startswith("//") or
                                   before == "//" or
                                   before.endswith((".", ":"))):
            yield f"{file.path}:{number}:{line.strip()}"
        before = line.strip()


def texts(root):
    for folder, folders, names in os.walk(root):
        folders[:] = [f for f in folders
                      if not f.startswith((".", "bazel-")) and f != "dist"]
        for name in sorted(names):
            path = os.path.relpath(os.path.join(folder, name), root)
            if name.endswith(ENDINGS) and not path.startswith(LEFT_OUT):
                with open(os.path.join(root, path), encoding="utf-8") as file:
                    yield path, file.read()


class WordsTest(unittest.TestCase):

    def test_the_tree_has_no_private_words(self):
        found = [line for path, text in texts(".")
                 for line in refused_words(path, text)]
        if found:
            self.fail("\n" + "\n".join(found))

    def test_comments_begin_with_a_noun_or_a_verb(self):
        found = [line for file in source_tree.read_tree(".")
                 for line in riddles(file)]
        if found:
            self.fail("\n" + "\n".join(found))

    def test_a_comment_without_its_noun_is_found(self):
        file = source_tree.SourceFile("a.h", "// What it takes.\nint a;\n")
        self.assertEqual(["a.h:1:// What it takes."], list(riddles(file)))
        file = source_tree.SourceFile("a.h", "// Time for all\n// Of them.\n")
        self.assertEqual([], list(riddles(file)))

    def test_a_private_word_is_found_and_the_term_is_not(self):
        self.assertEqual(1, len(list(refused_words("a.h", "page-locked"))))
        self.assertEqual([], list(refused_words("a.h", "DMA copy engine")))


if __name__ == "__main__":
    unittest.main()
