#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Three servers on hosts of their own, which are network name spaces, behind
# HAProxy and nginx with the files of ops/, through kills, drains, restarts, loss,
# delay and a partition. Needs root. Ends with "N passed, N failed".
#
# Usage: tests/network/run.sh [SERVER_BINARY]
set -euo pipefail

# shellcheck source=tests/support/python_suite.sh
source "$(dirname "${BASH_SOURCE[0]}")/../support/python_suite.sh"

[ "$(id -u)" -eq 0 ] || {
  echo "tests/network: needs root, for network name spaces" >&2
  exit 1
}
"$ROOT/tools/setup.sh" deploy
need grpc_tools,numpy
clients=()
for label in //cli:qgemm //loadtest:qgemm_loadtest //tests/network:cpp_caller; do
  find_program "$label"
  clients+=("$program")
done
find_program //server:qgemm_server "$@"
make_stubs qgemm/v1/qgemm.proto
QGEMM_SERVER="$program" QGEMM_CLIENTS="${clients[*]}" PYTHONPATH="$STUBS" \
  run_unittests "$ROOT/tests/network" --no_skips
