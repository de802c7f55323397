# SPDX-License-Identifier: Apache-2.0
"""Tests that //:tests reaches the tests of every folder (bazel checks that the
suites which the top BUILD names are there)."""

import os
import re
import unittest


def folders_of_tests():
    """Folders below tests/ whose BUILD file declares a test."""
    for folder, _, names in os.walk("tests"):
        if "BUILD" in names:
            with open(os.path.join(folder, "BUILD"), encoding="utf-8") as file:
                if re.search(r"^ *\w+_test\($", file.read(), re.MULTILINE):
                    yield folder[len("tests/"):]


class SuitesTest(unittest.TestCase):

    def test_every_folder_of_tests_is_in_a_suite(self):
        with open("BUILD", encoding="utf-8") as file:
            named = set(re.findall(r'"([\w/]+)"', file.read()))
        self.assertEqual([], sorted(set(folders_of_tests()) - named))


if __name__ == "__main__":
    unittest.main()
