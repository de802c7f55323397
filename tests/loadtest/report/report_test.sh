#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Tests the tools that read the load test's reports, and their pages in a real
# browser without a window. Builds the load test unless one is given; installs
# the browser and the Python environment if they are missing. Ends with
# "N passed, N failed, N skipped".
#
# Usage: tests/loadtest/report/report_test.sh [LOADTEST_BINARY]
set -euo pipefail
ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)"
readonly ROOT
readonly PYTHON="${QGEMM_CACHE_DIR:-$HOME/.cache/qgemm}/venv/bin/python"

if ! command -v chromium >/dev/null ||
    ! "$PYTHON" -c 'import numpy, vl_convert' 2>/dev/null; then
  "$ROOT/tools/setup.sh" test
fi

if [ $# -ge 1 ]; then
  loadtest="$1"
else
  "$ROOT/tools/bazel.sh" build //loadtest:qgemm_loadtest
  bin="$("$ROOT/tools/bazel.sh" info bazel-bin)"
  loadtest="$bin/loadtest/qgemm_loadtest"
fi

cd "$ROOT/tests/loadtest/report"
QGEMM_LOADTEST="$loadtest" PYTHONDONTWRITEBYTECODE=1 \
  PYTHONPATH="$ROOT/tools:$ROOT/tests/loadtest/report" "$PYTHON" - <<'EOF'
import sys
import unittest

suite = unittest.defaultTestLoader.discover(".", pattern="*_test.py")
result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(suite)
failed = len(result.failures) + len(result.errors)
skipped = len(result.skipped)
print(f"{result.testsRun - failed - skipped} passed, {failed} failed, "
      f"{skipped} skipped")
sys.exit(failed > 0)
EOF
