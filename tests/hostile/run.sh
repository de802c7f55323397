#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Attacks a real server with stock clients and frames made by hand, beside
# clients that check every product: makes the Python environment if it is
# missing, generates the stubs, builds the server unless QGEMM_SERVER_BINARY
# names one. Ends with "N passed, N failed, N skipped".
#
# Usage: tests/hostile/run.sh [--list] [--minutes=M] [--seed=N] [--scale=X]
#          [--strict] [--report=FILE] [NAME ...]
set -euo pipefail

# shellcheck source=tests/support/python_suite.sh
source "$(dirname "${BASH_SOURCE[0]}")/../support/python_suite.sh"

need grpc,grpc_tools,numpy
find_program //server:qgemm_server \
  ${QGEMM_SERVER_BINARY:+"$QGEMM_SERVER_BINARY"}
make_stubs qgemm/v1/qgemm.proto
# gRPC's handlers of fork abort, now and then, a child that is about to become
# the server.
PYTHONPATH="$STUBS:$ROOT/tests/hostile" \
  GRPC_VERBOSITY=NONE GRPC_ENABLE_FORK_SUPPORT=0 \
  "$PYTHON" "$ROOT/tests/hostile/hostile_test.py" "$program" "$@"
