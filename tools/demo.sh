#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Shows qgemm end to end and fails if anything is off: sets up and builds,
# starts a server, loads the linear layers of a block of a trained transformer
# in every format and one layer of the size of Llama-3-8B's, checks products
# against fp64, runs a short load test, prints a table, stops the server.
#
# Usage: tools/demo.sh [--bundle DIR]
#   --bundle DIR  run the binaries in DIR/bin on DIR/share/qgemm/demo instead
#                 of building; needs no network. An installed copy of this
#                 script does so by itself.
set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
readonly ROOT
TOOLS="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/demo"
readonly TOOLS

usage() {
  echo "usage: tools/demo.sh [--bundle DIR]" >&2
  exit 2
}

bundle=""
while [ "$#" -gt 0 ]; do
  case "$1" in
    --bundle)
      [ "$#" -ge 2 ] || usage
      bundle="$2"
      shift 2
      ;;
    --bundle=*)
      bundle="${1#--bundle=}"
      shift
      ;;
    *) usage ;;
  esac
done

# The copy in PREFIX/share/qgemm/tools runs PREFIX's own binaries.
if [ -z "$bundle" ] && [ ! -e "$ROOT/WORKSPACE" ]; then bundle="$ROOT/../.."; fi

if [ -n "$bundle" ]; then
  bundle="$(cd "$bundle" && pwd)"
  server="$bundle/bin/qgemm_server"
  cli="$bundle/bin/qgemm"
  loadtest="$bundle/bin/qgemm_loadtest"
  weights="$bundle/share/qgemm/demo/minilm_block.safetensors"
else
  "$ROOT/tools/setup.sh"
  "$ROOT/tools/bazel.sh" build -c opt //server:qgemm_server \
    //cli:qgemm //loadtest:qgemm_loadtest
  bin="$("$ROOT/tools/bazel.sh" info -c opt bazel-bin)"
  server="$bin/server/qgemm_server"
  cli="$bin/cli/qgemm"
  loadtest="$bin/loadtest/qgemm_loadtest"
  weights="$ROOT/demo/minilm_block.safetensors"
fi

exec "$TOOLS/run.sh" "$server" "$cli" "$loadtest" "$weights"
