# SPDX-License-Identifier: Apache-2.0
"""Tests that no file grows too long and no hop too thin (tree_figures.py)."""

import unittest

import source_tree
import tree_figures


MAX_SMALL_ONE_USER_SHARE = 0.08


def source(path, lines, *includes):
    text = "".join(f'#include "{include}"\n' for include in includes)
    return source_tree.SourceFile(path, text + "\n" * (lines - len(includes)))


class TreeTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.figures = tree_figures.Figures(source_tree.read_tree("."))

    def test_no_product_file_is_too_long(self):
        self.assertGreater(len(self.figures.product), 100)
        self.assertEqual([], self.figures.long)

    def test_few_small_headers_have_one_user(self):
        self.assertLessEqual(
            self.figures.small_one_user_share, MAX_SMALL_ONE_USER_SHARE,
            "\n".join(self.figures.small_one_user))


class FiguresTest(unittest.TestCase):

    def test_counts_product_files_only(self):
        figures = tree_figures.Figures([
            source("base/a.h", 30), source("base/a.cc", 401, "base/a.h"),
            source("tests/base/a_test.cc", 900, "base/a.h")])
        self.assertEqual(["base/a.h", "base/a.cc"], figures.product)
        self.assertEqual(["base/a.h"], figures.short)
        self.assertEqual(["base/a.cc"], figures.long)
        self.assertEqual(215.5, figures.median)

    def test_a_header_of_one_user_has_one_besides_its_own_source(self):
        figures = tree_figures.Figures([
            source("base/a.h", 59), source("base/a.cc", 50, "base/a.h"),
            source("base/b.h", 60), source("base/c.h", 59),
            source("base/d.cc", 50, "base/a.h", "base/b.h", "base/c.h"),
            source("base/e.cc", 50, "base/c.h")])
        self.assertEqual(["base/a.h", "base/b.h"], figures.one_user)
        self.assertEqual(["base/a.h"], figures.small_one_user)

    def test_finds_generated_and_public_headers_where_they_are(self):
        self.assertEqual("proto/qgemm/v1/qgemm.pb.h",
                         source_tree.path_of_include("qgemm/v1/qgemm.pb.h"))
        self.assertEqual("client/include/qgemm/client.h",
                         source_tree.path_of_include("qgemm/client.h"))


if __name__ == "__main__":
    unittest.main()
