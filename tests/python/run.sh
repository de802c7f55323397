#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the stock Python client against the real server: makes the Python
# environment if it is missing, generates the stubs from the protos, builds the
# server unless one is given. Ends with "N passed, N failed".
#
# Usage: tests/python/run.sh [SERVER_BINARY]
set -euo pipefail

# shellcheck source=tests/support/python_suite.sh
source "$(dirname "${BASH_SOURCE[0]}")/../support/python_suite.sh"

need grpc_channelz,grpc_health,grpc_reflection,grpc_tools,numpy
find_program //server:qgemm_server "$@"
make_stubs qgemm/v1/qgemm.proto qgemm/v1/debug.proto
QGEMM_SERVER="$program" PYTHONPATH="$STUBS" \
  run_unittests "$ROOT/tests/python" --no_skips
