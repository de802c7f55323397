# SPDX-License-Identifier: Apache-2.0
"""The Python that README and docs/python.md show runs."""

import contextlib
import io
import os
import re
import unittest

TREE = os.path.join(os.path.dirname(__file__), "../..")


def python_of(document):
    """The document's Python blocks, one behind the other."""
    with open(os.path.join(TREE, document), encoding="utf-8") as file:
        blocks = re.findall(r"^```python\n(.*?)^```$", file.read(),
                            re.DOTALL | re.MULTILINE)
    return "\n".join(blocks)


class DocumentsTest(unittest.TestCase):
    def run_document(self, document):
        code = python_of(document)
        self.assertIn("import qgemm", code)
        printed = io.StringIO()
        names = {}
        with contextlib.redirect_stdout(printed):
            exec(compile(code, document, "exec"), names)
        return names, printed.getvalue()

    def test_readme(self):
        names, _ = self.run_document("README.md")
        self.assertEqual(names["y"].shape, (2, 3, 4096))

    def test_python_page(self):
        names, printed = self.run_document("docs/python.md")
        self.assertEqual(names["y"].shape, (2, 3, 512))
        self.assertEqual(len(names["rows"]), 6)
        self.assertIn("INVALID_ARGUMENT a ", printed)


if __name__ == "__main__":
    unittest.main()
