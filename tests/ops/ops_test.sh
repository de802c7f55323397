#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Tests the files of ops/ with a real Prometheus, and the status page in a real
# browser without a window. Builds the server unless one is given; installs what
# is missing. Ends with "N passed, N failed, N skipped".
#
# Usage: tests/ops/ops_test.sh [SERVER_BINARY]
set -euo pipefail

# shellcheck source=tests/support/python_suite.sh
source "$(dirname "${BASH_SOURCE[0]}")/../support/python_suite.sh"

need grpc_tools chromium prometheus
find_program //server:qgemm_server "$@"
make_stubs qgemm/v1/qgemm.proto
QGEMM_SERVER="$program" PYTHONPATH="$STUBS:$ROOT/tests/python" \
  run_unittests "$ROOT/tests/ops"
