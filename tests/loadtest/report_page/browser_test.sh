#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Looks at the load test's pages in a real browser without a window: builds the
# sample pages unless a program that writes them is given, installs the browser
# and the Python environment if they are missing. Ends with
# "N passed, N failed".
#
# Usage: tests/loadtest/report_page/browser_test.sh \
#            [SAMPLE_PAGE_BINARY [FOLDER_FOR_PICTURES]]
set -euo pipefail
ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)"
readonly ROOT
readonly HERE="$ROOT/tests/loadtest/report_page"
readonly PYTHON="${QGEMM_CACHE_DIR:-$HOME/.cache/qgemm}/venv/bin/python"

if ! command -v chromium >/dev/null ||
    ! "$PYTHON" -c 'import numpy' 2>/dev/null; then
  if ! "$ROOT/tools/setup.sh" test; then
    echo "browser_test: chromium or numpy cannot be installed"
    echo "0 passed, 1 failed"
    exit 1
  fi
fi

if [ $# -ge 1 ]; then
  sample_page="$1"
else
  target=tests/loadtest/report_page
  "$ROOT/tools/bazel.sh" build "//$target:sample_page"
  sample_page="$("$ROOT/tools/bazel.sh" info bazel-bin)/$target/sample_page"
fi

PAGES="$(mktemp -d)"
readonly PAGES
trap 'rm -rf "$PAGES"' EXIT
"$sample_page" "$PAGES"

PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$HERE" \
  "$PYTHON" "$HERE/browser_test.py" "$PAGES" "${@:2}"
