# SPDX-License-Identifier: Apache-2.0
"""Tests that links between the tree's documents lead to files."""

import os
import re
import unittest

LINK = re.compile(r"\]\(([^)\s#:]+)(?:#[^)\s]*)?\)")


def documents(root):
    for folder, folders, names in os.walk(root):
        folders[:] = [f for f in folders
                      if not f.startswith((".", "bazel-")) and f != "dist"]
        for name in sorted(names):
            if name.endswith(".md"):
                yield os.path.join(folder, name)


class LinksTest(unittest.TestCase):

    def test_links_lead_to_files(self):
        broken = []
        for path in documents("."):
            with open(path, encoding="utf-8") as file:
                text = file.read()
            for target in LINK.findall(text):
                if not os.path.exists(
                        os.path.join(os.path.dirname(path), target)):
                    broken.append(f"{path}: {target}")
        if broken:
            self.fail("\n" + "\n".join(broken))


if __name__ == "__main__":
    unittest.main()
