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

# shellcheck source=tests/support/python_suite.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../support/python_suite.sh"

need numpy,vl_convert chromium
find_program //loadtest:qgemm_loadtest "$@"
QGEMM_LOADTEST="$program" PYTHONPATH="$ROOT/tools" \
  run_unittests "$ROOT/tests/loadtest/report"
