#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the wheel of the Python package qgemm. Its stubs are generated from
# proto/ by a pinned protoc of 4.25, so that they load with protobuf 4 and later;
# the tools for that are in an environment outside the tree, made if it is missing.
#
# Usage: python/build_wheel.sh FOLDER   (writes FOLDER/qgemm-VERSION-py3-none-any.whl)
#        python/build_wheel.sh --stubs  (puts the stubs beside the sources, to work
#                                        from the tree; git ignores them)
set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
readonly ROOT
readonly TOOLS="${QGEMM_CACHE_DIR:-${HOME:-/root}/.cache/qgemm}/wheel"

make_stubs() {
  "$TOOLS/bin/python" -m grpc_tools.protoc -I "$ROOT/proto" --python_out="$1" \
    --pyi_out="$1" --grpc_python_out="$1" \
    qgemm/v1/program.proto qgemm/v1/qgemm.proto
  rm -f "$1/qgemm/v1/program_pb2_grpc.py"  # has no service
}

[ "$#" -eq 1 ] || {
  echo "usage: python/build_wheel.sh FOLDER | --stubs" >&2
  exit 2
}
"$ROOT/tools/setup.sh" wheel
if [ "$1" = --stubs ]; then
  make_stubs "$ROOT/python"
  exit
fi
mkdir -p "$1"
output="$(cd "$1" && pwd)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cp -r "$ROOT/LICENSE" "$ROOT/python/pyproject.toml" "$ROOT/python/qgemm" "$work"
make_stubs "$work"
"$TOOLS/bin/pip" wheel -q --disable-pip-version-check --no-deps \
  --no-build-isolation --wheel-dir="$output" "$work"
ls "$output"/qgemm-*.whl
