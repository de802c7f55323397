#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Tests whole models through the Python package: readers of checkpoints, mutated
# files, loads, programs of models against the same models of transformers, and
# sentence embeddings, against a real server, which is built unless one is given.
# The package is installed from its wheel beside Debian's torch. Ends with
# "N passed, N failed".
#
# Usage: python/tests/models/run.sh [SERVER_BINARY]
# QGEMM_MUTATIONS is the number of mutated files of each kind (1000).
set -euo pipefail

readonly SUITE_ENVIRONMENT=frontends
# shellcheck source=tests/support/python_suite.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../tests/support/python_suite.sh"
# Small matrices: threads would only wake each other.
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

"$ROOT/tools/setup.sh" frontends
find_program //server:qgemm_server "$@"
WORK="$(mktemp -d)"
readonly WORK
trap 'rm -rf "$WORK"' EXIT
"$ROOT/python/build_wheel.sh" "$WORK"
"$PYTHON" -m pip install -q --disable-pip-version-check --no-deps \
  --target "$WORK/installed" "$WORK"/qgemm-*.whl
QGEMM_SERVER_BINARY="$program" PYTHONPATH="$WORK/installed" \
  run_unittests "$ROOT/python/tests/models" --no_skips
