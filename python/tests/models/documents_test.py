# SPDX-License-Identifier: Apache-2.0
"""The Python that docs/models.md shows runs, and so do the examples."""

import contextlib
import io
import json
import os
import re
import runpy
import sys
import unittest
import unittest.mock

import local_models
import qgemm.models
from cases import ServerTest
from encoder_test import package_folder

TREE = os.path.join(os.path.dirname(__file__), "../../..")


def python_blocks(page):
    return re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)


class DocumentsTest(ServerTest):

    def setUp(self):
        super().setUp()
        os.symlink(package_folder(), self.path("all-MiniLM-L6-v2"))
        local_models.make("llama", self.path("tiny-llama"))
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        self.tree = os.path.realpath(TREE)
        os.chdir(self.folder)

    def page(self):
        with open(os.path.join(self.tree, "docs/models.md"),
                  encoding="utf-8") as file:
            return file.read()

    def test_the_page(self):
        code = "\n".join(python_blocks(self.page()))
        names, printed = {}, io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "docs/models.md", "exec"), names)
        names["client"].close()
        names["server"].stop()
        self.assertEqual((2, 384), names["vectors"].shape)
        self.assertEqual((1, 160), names["logits"].shape)
        self.assertIn("dense", printed.getvalue())

    def test_embeddings_take_five_lines(self):
        """Beside imports: the page's server and client, and its block on embeddings."""
        before, after = self.page().split("## Embeddings\n")
        lines = [line for line in "".join(python_blocks(before)).splitlines()
                 if line.startswith(("server =", "client ="))]
        lines += [line for line in python_blocks(after)[0].splitlines()
                  if line.strip() and not line.startswith(("import ", "#"))]
        self.assertLessEqual(len(lines), 5, lines)
        names, printed = {"qgemm": qgemm}, io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec("\n".join(lines), names)
        names["client"].close()
        names["server"].stop()
        self.assertEqual((2, 384), names["vectors"].shape)

    def test_the_notebook(self):
        path = os.path.join(self.tree, "python/examples/embed.ipynb")
        with open(path, encoding="utf-8") as file:
            cells = json.load(file)["cells"]
        names = {}
        for cell in cells:
            if cell["cell_type"] == "code":
                exec("".join(cell["source"]), names)
        self.assertEqual((3, 384), names["vectors"].shape)

    def test_the_example_of_embeddings(self):
        printed = self.run_example("embed.py", "all-MiniLM-L6-v2")
        self.assertEqual(3, len(re.findall(r"\[[^\[\]]+\]", printed)))

    def run_example(self, name, *arguments):
        printed = io.StringIO()
        path = os.path.join(self.tree, "python/examples", name)
        with contextlib.redirect_stdout(printed), unittest.mock.patch.object(
                sys, "argv", [name, *arguments, self.server.address]):
            runpy.run_path(path, run_name="__main__")
        return printed.getvalue()

    def test_the_example_of_text(self):
        import tokenizers
        tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(
            {f"w{i}": i for i in range(160)}, unk_token="w0"))
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
        tokenizer.save("tiny-llama/tokenizer.json")
        printed = self.run_example("generate.py", "tiny-llama", "w5 w6")
        self.assertRegex(printed, r"w5 w6( ?w\d+)+")


if __name__ == "__main__":
    unittest.main()
