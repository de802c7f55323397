#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the stock Python client against the real server: makes the Python
# environment if it is missing, generates the stubs from the protos, builds the
# server unless one is given. Ends with "N passed, N failed".
#
# Usage: tests/python/run.sh [SERVER_BINARY]
set -euo pipefail
ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
readonly ROOT
readonly PYTHON="${QGEMM_CACHE_DIR:-$HOME/.cache/qgemm}/venv/bin/python"

needed='import grpc_channelz, grpc_health, grpc_reflection, grpc_tools, numpy'
if ! "$PYTHON" -c "$needed" 2>/dev/null; then "$ROOT/tools/setup.sh" test; fi

if [ $# -ge 1 ]; then
  server="$1"
else
  "$ROOT/tools/bazel.sh" build //server:qgemm_server
  server="$("$ROOT/tools/bazel.sh" info bazel-bin)/server/qgemm_server"
fi

STUBS="$(mktemp -d)"
readonly STUBS
trap 'rm -rf "$STUBS"' EXIT
"$PYTHON" -m grpc_tools.protoc -I "$ROOT/proto" --python_out="$STUBS" \
  --grpc_python_out="$STUBS" qgemm/v1/qgemm.proto qgemm/v1/debug.proto

PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$STUBS:$ROOT/tests/python" \
  "$PYTHON" "$ROOT/tests/python/e2e_test.py" "$server"
