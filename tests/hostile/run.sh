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
ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
readonly ROOT
readonly PYTHON="${QGEMM_CACHE_DIR:-$HOME/.cache/qgemm}/venv/bin/python"

if ! "$PYTHON" -c 'import grpc, grpc_tools, numpy' 2>/dev/null; then
  "$ROOT/tools/setup.sh" test
fi

if [ -n "${QGEMM_SERVER_BINARY:-}" ]; then
  server="$QGEMM_SERVER_BINARY"
else
  "$ROOT/tools/bazel.sh" build //server:qgemm_server
  server="$("$ROOT/tools/bazel.sh" info bazel-bin)/server/qgemm_server"
fi

STUBS="$(mktemp -d)"
readonly STUBS
trap 'rm -rf "$STUBS"' EXIT
"$PYTHON" -m grpc_tools.protoc -I "$ROOT/proto" --python_out="$STUBS" \
  --grpc_python_out="$STUBS" qgemm/v1/qgemm.proto

# gRPC's handlers of fork abort, now and then, a child that is about to become
# the server.
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$STUBS:$ROOT/tests/hostile" \
  GRPC_VERBOSITY=NONE GRPC_ENABLE_FORK_SUPPORT=0 \
  "$PYTHON" "$ROOT/tests/hostile/hostile_test.py" "$server" "$@"
