#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the tree's figures: how many files, how long, how many hops.

Usage: tree_figures.py [ROOT] [--list]. A product file is a C++ or CUDA source
outside tests/, bench/ and third_party/. A header has one user if one product
file besides its own source includes it. --list also names the files behind the
figures that should be small.
"""

import statistics
import sys

import source_tree

SHORT_FILE_LINES = 40
LONG_FILE_LINES = 400
SMALL_HEADER_LINES = 60


class Figures:
    """The figures of one tree; lists hold (path, lines)."""

    def __init__(self, files):
        product = [file for file in files if file.is_product]
        lengths = {file.path: len(file.lines) for file in files}
        users = source_tree.users_by_header(product)
        self.lengths = lengths
        self.product = [file.path for file in product]
        self.headers = sorted(users)
        self.short = self._where(lambda lines: lines < SHORT_FILE_LINES)
        self.long = self._where(lambda lines: lines > LONG_FILE_LINES)
        self.one_user = [header for header in self.headers
                         if len(users[header]) == 1]
        self.small_one_user = [header for header in self.one_user
                               if lengths[header] < SMALL_HEADER_LINES]

    def _where(self, accepts):
        return [path for path in self.product if accepts(self.lengths[path])]

    @property
    def median(self):
        return statistics.median(self.lengths[path] for path in self.product)

    @property
    def small_one_user_share(self):
        return len(self.small_one_user) / max(1, len(self.headers))

    def lines_below(self, folder):
        return sum(lines for path, lines in self.lengths.items()
                   if path.startswith(folder))


def report(figures):
    product_lines = sum(figures.lengths[path] for path in figures.product)
    yield "product files", len(figures.product)
    yield "product lines", product_lines
    yield "median lines of a product file", f"{figures.median:g}"
    yield f"files under {SHORT_FILE_LINES} lines", len(figures.short)
    yield f"files above {LONG_FILE_LINES} lines", len(figures.long)
    yield "headers", len(figures.headers)
    yield "headers with one user", len(figures.one_user)
    yield (f"those under {SMALL_HEADER_LINES} lines",
           f"{len(figures.small_one_user)} "
           f"({100 * figures.small_one_user_share:.1f} % of headers)")
    yield "lines of loadtest/", figures.lines_below("loadtest/")
    yield "lines of tests/loadtest/", figures.lines_below("tests/loadtest/")


def main():
    arguments = [a for a in sys.argv[1:] if a != "--list"]
    root = arguments[0] if arguments else "."
    figures = Figures(source_tree.read_tree(root))
    for name, value in report(figures):
        print(f"{name:34} {value}")
    if "--list" in sys.argv:
        for title, paths in (("short files", figures.short),
                             ("long files", figures.long),
                             ("small headers with one user",
                              figures.small_one_user)):
            print(f"\n{title}:")
            for path in paths:
                print(f"  {figures.lengths[path]:4} {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
