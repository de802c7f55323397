#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Tests the files of ops/ with a real Prometheus, and the status page in a real
# browser without a window. Builds the server unless one is given; installs what
# is missing. Ends with "N passed, N failed, N skipped".
#
# Usage: tests/ops/ops_test.sh [SERVER_BINARY]
set -euo pipefail
ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
readonly ROOT
readonly PYTHON="${QGEMM_CACHE_DIR:-$HOME/.cache/qgemm}/venv/bin/python"

if ! command -v chromium >/dev/null || ! command -v prometheus >/dev/null ||
    ! "$PYTHON" -c 'import grpc_tools' 2>/dev/null; then
  "$ROOT/tools/setup.sh" test
fi

if [ $# -ge 1 ]; then
  server="$(realpath "$1")"
else
  "$ROOT/tools/bazel.sh" build //server:qgemm_server
  server="$("$ROOT/tools/bazel.sh" info bazel-bin)/server/qgemm_server"
fi

STUBS="$(mktemp -d)"
readonly STUBS
trap 'rm -rf "$STUBS"' EXIT
"$PYTHON" -m grpc_tools.protoc -I "$ROOT/proto" --python_out="$STUBS" \
  --grpc_python_out="$STUBS" qgemm/v1/qgemm.proto

cd "$ROOT/tests/ops"
QGEMM_SERVER="$server" PYTHONDONTWRITEBYTECODE=1 \
  PYTHONPATH="$STUBS:$ROOT/tests/python:$ROOT/tests/ops" "$PYTHON" - <<'PYTHON'
import sys
import unittest

suite = unittest.defaultTestLoader.discover(".", pattern="*_test.py")
result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(suite)
failed = len(result.failures) + len(result.errors)
skipped = len(result.skipped)
print(f"{max(0, result.testsRun - failed - skipped)} passed, {failed} failed, "
      f"{skipped} skipped")
sys.exit(failed > 0)
PYTHON
