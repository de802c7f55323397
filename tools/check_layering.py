#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that folders include one way only (docs/architecture.md).

Usage: check_layering.py [ROOT]. Reads every #include "..." of our C++ and
CUDA files, and which files reach for gRPC, Protobuf and CUDA headers. Prints
each violation and exits 1 if there is one.
"""

import os
import re
import sys

# Layer -> layers it may include besides itself. The longest prefix that
# matches a path is its layer.
KERNELS = ["kernels/matrix", "kernels/formats"]
ALLOWED = {
    "base": [],
    "proto": ["base"],
    "kernels/matrix": ["base"],
    "kernels/formats": ["kernels/matrix", "base"],
    "kernels/reference": KERNELS + ["base"],
    "kernels/cpu": KERNELS + ["base"],
    "kernels/cuda": KERNELS + ["base"],
    "kernels/backends": KERNELS + [
        "kernels/reference", "kernels/cpu", "kernels/cuda", "base"],
    "server/metrics": ["base"],
    "server/weights": KERNELS + ["server/metrics", "base"],
    "server/scheduling": KERNELS + ["server/metrics", "base"],
    "server/transport": KERNELS + ["server/metrics", "base"],
    "server/execution": KERNELS + [
        "server/scheduling", "server/weights", "server/transport",
        "server/metrics", "base"],
    "server/rpc": [
        "server/execution", "server/scheduling", "server/weights",
        "server/transport", "server/metrics", "kernels/matrix",
        "kernels/formats", "proto", "base"],
    "server": [
        "server/rpc", "server/execution", "server/scheduling",
        "server/weights", "server/transport", "server/metrics",
        "kernels/backends", "kernels/matrix", "kernels/formats", "proto",
        "base"],
    "client": KERNELS + ["proto", "base"],
    "cli": KERNELS + ["client", "cli/tensor_files", "proto", "base"],
    "loadtest": KERNELS + ["client", "proto", "base"],
    "cli/tensor_files": ["kernels/matrix", "base"],
    "client/examples": ["client"],
    "tests": None,  # anything
    "bench": None,
    "tools": None,
}

OUR_FOLDERS = {layer.split("/")[0] for layer in ALLOWED}

GRPC_OR_PROTO = re.compile(r'<(grpc|grpcpp|google/protobuf)/|\.pb\.h')
GRPC_HOMES = ("server/rpc/", "server/server.", "server/main.", "client/",
              "proto/", "tests/", "bench/")
CUDA = re.compile(r'<(cuda|cublas|cuda_\w+|cublasLt|driver_types)[\w.]*\.h>')
CUDA_HOMES = ("kernels/cuda/", "bench/cuda/", "tests/")
NOBODY_INCLUDES = ("tests/", "bench/", "tools/")
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<][^">]+[">])')
SOURCES = (".h", ".cc", ".cu", ".cuh")


def layer_of(path):
    folder = os.path.dirname(path)
    while folder:
        if folder in ALLOWED:
            return folder
        folder = os.path.dirname(folder)
    return None


def target_of(include):
    """The tree's path of a quoted include, or None for a system header."""
    if not include.startswith('"'):
        return None
    path = include.strip('"')
    if path.startswith("qgemm/v1/"):
        return "proto/" + path
    return path if path.split("/")[0] in OUR_FOLDERS else None


def violations_of(path, text):
    layer = layer_of(path)
    if layer is None:
        yield 0, "is in no layer of the table in tools/check_layering.py"
        return
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        include = match.group(1)
        if GRPC_OR_PROTO.search(include) and not path.startswith(GRPC_HOMES):
            yield number, f"{include}: gRPC and Protobuf belong elsewhere"
        if CUDA.search(include) and (not path.startswith(CUDA_HOMES) or
                                     "/tuning/" in path):
            yield number, f"{include}: CUDA belongs in kernels/cuda"
        target = target_of(include)
        if target is None:
            continue
        allowed = ALLOWED[layer]
        target_layer = layer_of(target)
        if (target.startswith(NOBODY_INCLUDES) and
                not path.startswith(NOBODY_INCLUDES)):
            yield number, f"{include}: nobody uses {target.split('/')[0]}/"
        elif allowed is not None and target_layer != layer and (
                target_layer not in allowed):
            yield number, f"{layer} must not include {include}"


def source_files(root):
    for folder, folders, names in os.walk(root):
        relative = os.path.relpath(folder, root)
        folders[:] = [f for f in folders
                      if not f.startswith((".", "bazel-")) and
                      f not in ("third_party", "dist", "node_modules")]
        for name in sorted(names):
            if name.endswith(SOURCES):
                yield os.path.normpath(os.path.join(relative, name))


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else "."
    count = files = 0
    for path in source_files(root):
        files += 1
        with open(os.path.join(root, path), encoding="utf-8") as source:
            for number, message in violations_of(path, source.read()):
                print(f"{path}:{number}: {message}")
                count += 1
    print(f"check_layering: {files} files, {count} violations")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
