#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs a Python test in the tree itself, which WORKSPACE, the Bazel test's only
# data, links to.
#
# Usage: run_in_tree.sh tests/tree/NAME.py
set -euo pipefail
cd "$(dirname "$(realpath WORKSPACE)")"
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=tools exec python3 "$1"
