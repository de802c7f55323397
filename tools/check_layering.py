#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that folders include one way only (docs/architecture.md).

Usage: check_layering.py [ROOT]. Reads every #include of our C++ and CUDA files
and prints each violation; exits 1 if there is one. Three things are checked:
each folder includes what the table below allows it; no folders include each
other in a circle, at any depth; gRPC, Protobuf and CUDA headers stay where
they belong. As a test: //tests/tree:layering_test.
"""

import os
import sys

import source_tree

# One layer a folder, from the bottom to the top: a folder may include itself
# and what its line names, and a line names only folders of lines above it.
# "kernels" and the like stand for every folder listed below that name so far.
LAYERS = (
    ("base", ""),
    ("flags", "base"),
    ("proto/qgemm/v1", ""),
    ("rpc", "base proto"),
    ("lane", "base"),
    ("kernels/matrix", "base"),
    ("kernels/formats", "kernels/matrix base"),
    ("kernels/programs", "kernels/matrix base"),
    ("kernels/host", "kernels/formats kernels/matrix base"),
    ("kernels/reference", "kernels/host kernels/programs kernels/formats "
                          "kernels/matrix base"),
    ("kernels/cpu/microkernels", "kernels/matrix base"),
    ("kernels/cpu", "kernels/cpu kernels/host kernels/programs kernels/formats "
                    "kernels/matrix base"),
    ("kernels/cuda/layout", "kernels/formats kernels/matrix base"),
    ("kernels/cuda/plan", "kernels/cuda kernels/programs kernels/formats "
                          "kernels/matrix base"),
    ("kernels/cuda/runtime", "kernels/cuda/layout kernels/cuda/plan base"),
    ("kernels/cuda/device", "kernels/cuda/layout kernels/cuda/plan base"),
    ("kernels/cuda/device/row_ops",
     "kernels/cuda/device kernels/programs kernels/matrix base"),
    ("kernels/cuda/device/decode_gemm",
     "kernels/cuda/device kernels/cuda/device/row_ops kernels/cuda/layout "
     "kernels/cuda/plan base"),
    ("kernels/cuda/device/prefill_gemm",
     "kernels/cuda/device kernels/cuda/layout kernels/cuda/plan base"),
    ("kernels/cuda/device/w4a8_gemm",
     "kernels/cuda/device kernels/cuda/device/decode_gemm kernels/cuda/layout "
     "kernels/cuda/plan kernels/matrix base"),
    ("kernels/cuda/device/a32_gemm",
     "kernels/cuda/device kernels/cuda/device/decode_gemm "
     "kernels/cuda/device/w4a8_gemm kernels/cuda/layout kernels/cuda/plan "
     "kernels/matrix base"),
    ("kernels/cuda/device/w4a8_prefill",
     "kernels/cuda/device kernels/cuda/device/prefill_gemm "
     "kernels/cuda/layout kernels/cuda/plan base"),
    ("kernels/cuda/launch", "kernels/cuda kernels/programs kernels/matrix "
                            "base"),
    ("kernels/cuda/cublas", "kernels/cuda kernels/matrix base"),
    ("kernels/cuda", "kernels/cuda kernels/host kernels/programs "
                     "kernels/formats kernels/matrix base"),
    ("kernels/backends", "kernels base"),
    ("server/metrics", "base"),
    ("server/access", "server/metrics base"),
    ("server/net", "server/access server/metrics base"),
    ("server/tls", "server/metrics base"),
    ("server/health", "server/metrics base"),
    ("server/storage", "kernels/formats kernels/matrix base"),
    ("server/keep", "server/health kernels/formats kernels/matrix flags base"),
    ("server/weights", "server/keep server/storage server/access server/metrics "
                       "kernels/formats kernels/matrix base"),
    ("server/programs", "server/access server/metrics server/weights "
                        "kernels/programs kernels/formats kernels/matrix base"),
    ("server/scheduling", "server/access server/metrics server/weights "
                          "kernels/programs kernels/matrix base"),
    ("server/rpc", "server rpc proto kernels/programs kernels/formats "
                   "kernels/matrix base"),
    ("server/lane", "server lane rpc proto kernels/programs kernels/matrix "
                    "base"),
    ("server", "server lane rpc proto kernels/backends kernels/formats "
               "kernels/matrix flags base"),
    ("client/include/qgemm", "kernels/programs kernels/formats "
                             "kernels/matrix base"),
    ("client", "client/include/qgemm lane rpc proto kernels/programs "
               "kernels/formats kernels/matrix base"),
    ("client/flags", "client/include/qgemm flags base"),
    ("client/examples", "client/include/qgemm"),
    ("cli/tensor_files", "kernels/matrix base"),
    ("cli", "cli client server/storage kernels/reference kernels/programs "
            "kernels/formats kernels/matrix flags base"),
    ("loadtest/schedule", "base"),
    ("loadtest/workload", "kernels/formats kernels/matrix base"),
    ("loadtest/report", "client/include/qgemm base"),
    ("loadtest/engine", "loadtest/schedule loadtest/report client lane rpc "
                        "proto kernels/cuda/runtime base"),
    ("loadtest/verify", "loadtest/report loadtest/workload kernels/matrix "
                        "base"),
    ("loadtest", "loadtest client rpc proto kernels/formats kernels/matrix "
                 "flags base"),
)
# These use whatever they test, measure or show; nobody uses them.
USERS_OF_ALL = ("tests/", "bench/")

GRPC_FOLDERS = ("rpc/", "server/rpc/", "server/lane/", "server/net/",
                "server/tls/", "server/server.", "server/main.", "client/", "loadtest/",
                "proto/") + USERS_OF_ALL
GRPC_FREE_FOLDERS = ("client/include/", "client/examples/")
CUDA_FOLDERS = ("kernels/cuda/",) + USERS_OF_ALL
CUDA_FREE_FOLDERS = ("kernels/cuda/layout/", "kernels/cuda/plan/")
GRPC_PREFIXES = ("grpc/", "grpcpp/", "google/protobuf/", "google/rpc/")
CUDA_PREFIXES = ("cuda", "cublas", "driver_types")


def within(folder, ancestor):
    return folder == ancestor or folder.startswith(ancestor + "/")


def allowed_folders(layers):
    """Maps each folder of the table to the folders that it may include."""
    allowed = {}
    for folder, names in layers:
        allowed[folder] = set()
        for name in names.split():
            below = {other for other in allowed
                     if within(other, name) and other != folder}
            if not below:
                raise ValueError(
                    f"{folder} names {name}, which is no layer above it in "
                    "the table of tools/check_layering.py")
            allowed[folder] |= below
    return allowed


def is_grpc(name, quoted):
    return name.endswith(".pb.h") or (
        not quoted and name.startswith(GRPC_PREFIXES))


def is_cuda(name, quoted):
    return not quoted and name.startswith(CUDA_PREFIXES) and (
        name.endswith(".h"))


def violations_of(file, allowed, ours):
    """Yields (line, message) for one file's includes."""
    checked = not file.path.startswith(USERS_OF_ALL)
    if checked and file.folder not in allowed:
        yield 0, ("its folder is in no line of the table in "
                  "tools/check_layering.py")
        return
    for number, name, quoted in file.includes():
        if is_grpc(name, quoted) and (
                not file.path.startswith(GRPC_FOLDERS) or
                file.path.startswith(GRPC_FREE_FOLDERS)):
            yield number, f"{name}: gRPC and Protobuf belong elsewhere"
        if is_cuda(name, quoted) and (
                not file.path.startswith(CUDA_FOLDERS) or
                file.path.startswith(CUDA_FREE_FOLDERS)):
            yield number, f"{name}: CUDA headers belong elsewhere"
        folder = os.path.dirname(source_tree.path_of_include(name))
        if (not checked or not quoted or folder == file.folder or
                folder.split("/")[0] not in ours):
            continue
        if folder.startswith(USERS_OF_ALL):
            yield number, f"{name}: nobody uses {folder.split('/')[0]}/"
        elif folder not in allowed[file.folder]:
            yield number, f"{file.folder} must not include {name}"


def folder_graph(files):
    """Maps each folder to {included folder: an include that makes it}."""
    folders = {file.folder for file in files}
    graph = {folder: {} for folder in folders}
    for file in files:
        for number, name, quoted in file.includes():
            folder = os.path.dirname(source_tree.path_of_include(name))
            if quoted and folder in folders and folder != file.folder:
                graph[file.folder].setdefault(
                    folder, f"{file.path}:{number} includes {name}")
    return graph


def child_graph(graph, parent):
    """The graph of what lies in `parent`: a child folder with all below it is
    one node; the parent's own files are the node "."."""
    def node(folder):
        if folder == parent:
            return "."
        if parent and not folder.startswith(parent + "/"):
            return None
        return folder[len(parent) + 1 if parent else 0:].split("/")[0]

    children = {}
    for folder, included in graph.items():
        for other, why in included.items():
            here, there = node(folder), node(other)
            if here and there and here != there:
                children.setdefault(here, {}).setdefault(there, why)
    return children


def find_cycle(graph):
    """The reasons of one cycle's arrows; empty if there is no cycle."""
    done = set()
    path = []

    def visit(node):
        if node in path:
            circle = path[path.index(node):] + [node]
            return [graph[a][b] for a, b in zip(circle, circle[1:])]
        if node in done:
            return []
        path.append(node)
        for other in sorted(graph.get(node, {})):
            reasons = visit(other)
            if reasons:
                return reasons
        path.pop()
        done.add(node)
        return []

    for node in sorted(graph):
        reasons = visit(node)
        if reasons:
            return reasons
    return []


def cycles(files):
    """Yields (parent folder, reasons): at most one cycle for each parent."""
    graph = folder_graph(files)
    parents = {""}
    for folder in graph:
        while folder:
            parents.add(folder)
            folder = os.path.dirname(folder)
    for parent in sorted(parents):
        reasons = find_cycle(child_graph(graph, parent))
        if reasons:
            yield parent, reasons


def check(files):
    """Every violation of a tree, as lines to print."""
    allowed = allowed_folders(LAYERS)
    ours = {folder.split("/")[0] for folder in allowed}
    ours |= {folder.rstrip("/") for folder in USERS_OF_ALL}
    for file in files:
        for number, message in violations_of(file, allowed, ours):
            yield f"{file.path}:{number}: {message}"
    for parent, reasons in cycles(files):
        yield (f"{parent or 'the tree'}: folders include each other in a "
               "circle:\n  " + "\n  ".join(reasons))
    empty = set(allowed) - {file.folder for file in files} - {"proto/qgemm/v1"}
    for folder in sorted(empty):
        yield f"{folder}: has a line in the table and no sources"


def main():
    files = source_tree.read_tree(sys.argv[1] if len(sys.argv) > 1 else ".")
    violations = list(check(files))
    for violation in violations:
        print(violation)
    print(f"check_layering: {len(files)} files, {len(violations)} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
