# SPDX-License-Identifier: Apache-2.0
"""The tree's C++ and CUDA sources and what they include.

Shared by check_layering.py and tree_figures.py, and by their tests.
"""

import os
import re

SOURCES = (".h", ".cc", ".cu", ".cuh")
HEADERS = (".h", ".cuh")
NOT_PRODUCT = ("tests/", "bench/")
LEFT_OUT = ("third_party", "dist", "node_modules")

_INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]')


class SourceFile:
    """One source: its path in the tree, its lines, its includes."""

    def __init__(self, path, text):
        self.path = path
        self.folder = os.path.dirname(path)
        self.lines = text.splitlines()

    @property
    def is_product(self):
        return not self.path.startswith(NOT_PRODUCT)

    @property
    def is_header(self):
        return self.path.endswith(HEADERS)

    def includes(self):
        """Yields (line number, name, True if in quotes)."""
        for number, line in enumerate(self.lines, 1):
            match = _INCLUDE.match(line)
            if match:
                yield number, match.group(2), match.group(1) == '"'


def path_of_include(name):
    """The tree's path of a quoted include of ours.

    Generated headers are found where their .proto lies; the client's public
    headers and those are the only ones that an include path shortens.
    """
    if name.startswith("qgemm/v1/"):
        return "proto/" + name
    if name.startswith("qgemm/"):
        return "client/include/" + name
    return name


def read_tree(root):
    """Every source below root, in the order of their paths."""
    files = []
    for folder, folders, names in os.walk(root):
        relative = os.path.relpath(folder, root)
        folders[:] = [f for f in folders
                      if not f.startswith((".", "bazel-")) and
                      f not in LEFT_OUT]
        for name in names:
            if name.endswith(SOURCES):
                path = os.path.normpath(os.path.join(relative, name))
                with open(os.path.join(root, path), encoding="utf-8") as file:
                    files.append(SourceFile(path, file.read()))
    return sorted(files, key=lambda file: file.path)


def users_by_header(files):
    """Maps each header of ours to the paths of the files that include it.

    The source beside a header, of the same name, is no user of it.
    """
    users = {file.path: set() for file in files if file.is_header}
    for file in files:
        for _, name, quoted in file.includes():
            target = path_of_include(name)
            beside = (os.path.splitext(target)[0] ==
                      os.path.splitext(file.path)[0])
            if quoted and target in users and not beside:
                users[target].add(file.path)
    return users
