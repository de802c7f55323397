# SPDX-License-Identifier: Apache-2.0
"""Tests that folders include one way only, and that the check would notice."""

import unittest

import check_layering
import source_tree


def source(path, *includes):
    text = "".join(f"#include {include}\n" for include in includes)
    return source_tree.SourceFile(path, text)


def messages(*files):
    return [line for line in check_layering.check(files)
            if "has a line in the table" not in line]


class TreeTest(unittest.TestCase):

    def test_folders_include_one_way_only(self):
        files = source_tree.read_tree(".")
        self.assertGreater(len(files), 100)
        found = list(check_layering.check(files))
        if found:
            self.fail("\n" + "\n".join(found))


class CheckLayeringTest(unittest.TestCase):

    def test_an_arrow_down_is_allowed(self):
        self.assertEqual([], messages(
            source("server/server.cc", '"base/clock.h"', "<grpcpp/server.h>"),
            source("base/clock.h", "<vector>")))

    def test_an_arrow_up_is_named_with_its_line(self):
        found = messages(source("base/clock.h", "<vector>", '"server/a.h"'))
        self.assertEqual(
            ["base/clock.h:2: base must not include server/a.h"], found)

    def test_a_folder_without_a_line_is_refused(self):
        found = messages(source("base/nested/a.h"))
        self.assertIn("in no line of the table", found[0])

    def test_nobody_uses_tests(self):
        found = messages(source("base/a.h", '"tests/support/b.h"'))
        self.assertIn("nobody uses tests/", found[0])

    def test_grpc_and_cuda_stay_where_they_belong(self):
        self.assertIn("gRPC", messages(
            source("base/a.h", "<grpcpp/grpcpp.h>"))[0])
        self.assertIn("gRPC", messages(
            source("client/include/qgemm/a.h", "<grpcpp/grpcpp.h>"))[0])
        self.assertIn("CUDA", messages(
            source("kernels/cuda/plan/a.h", "<cuda_runtime.h>"))[0])
        self.assertEqual([], messages(
            source("kernels/cuda/runtime/a.h", "<cuda_runtime.h>")))

    def test_folders_in_a_circle_are_found_below_any_folder(self):
        files = [source("tests/a/b/x.h", '"tests/a/c/y.h"'),
                 source("tests/a/c/y.h", '"tests/a/d/z.h"'),
                 source("tests/a/d/z.h", '"tests/a/b/x.h"')]
        (parent, reasons), = check_layering.cycles(files)
        self.assertEqual("tests/a", parent)
        self.assertEqual(3, len(reasons))
        self.assertIn("tests/a/b/x.h:1 includes tests/a/c/y.h", reasons)

    def test_folders_that_meet_in_a_circle_only_by_others_are_found(self):
        files = [source("tests/a/one/x.h", '"tests/b/one/y.h"'),
                 source("tests/b/one/y.h"),
                 source("tests/b/two/z.h", '"tests/a/two/w.h"'),
                 source("tests/a/two/w.h")]
        (parent, _), = check_layering.cycles(files)
        self.assertEqual("tests", parent)

    def test_a_line_of_the_table_names_only_lines_above_it(self):
        with self.assertRaises(ValueError):
            check_layering.allowed_folders((("a", "b"), ("b", "")))


if __name__ == "__main__":
    unittest.main()
