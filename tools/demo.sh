#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Shows qgemm end to end and fails if anything is off: sets up and builds,
# starts a server, loads the linear layers of a block of a trained transformer
# in every format and one layer of the size of Llama-3-8B's, checks products
# against fp64, runs the whole transformer against a framework, runs a short load
# test, stops the server. Prints tables. Without network it leaves the whole
# transformer out, unless its Python environment is there already.
#
# Usage: tools/demo.sh [--cuda] [--bundle DIR]
#   --cuda        build for GPUs where this machine has none; the default there
#                 is the CPU alone, which builds in a fraction of the time
#   --bundle DIR  run the binaries in DIR/bin on DIR/share/qgemm/demo instead
#                 of building; needs no network. An installed copy of this
#                 script does so by itself.
set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
readonly ROOT
TOOLS="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/demo"
readonly TOOLS

usage() {
  echo "usage: tools/demo.sh [--cuda] [--bundle DIR]" >&2
  exit 2
}

has_gpu() { [ -e /dev/nvidiactl ] || nvidia-smi -L >/dev/null 2>&1; }

# Builds what the demo runs and sets where it is.
build() {
  local flags=(-c opt) bin
  if [ "$cuda" = no ] && ! has_gpu; then
    echo "demo: no GPU here: building for the CPU alone (--cuda builds both)"
    flags+=(--repo_env=QGEMM_CUDA=off)
  fi
  "$ROOT/tools/setup.sh"
  "$ROOT/tools/setup.sh" minilm ||
    echo "demo: no Python environment for all-MiniLM-L6-v2, which is left out" >&2
  "$ROOT/tools/bazel.sh" build "${flags[@]}" \
    //server:qgemm_server //cli:qgemm //loadtest:qgemm_loadtest
  bin="$("$ROOT/tools/bazel.sh" info "${flags[@]}" bazel-bin 2>/dev/null)"
  server="$bin/server/qgemm_server"
  cli="$bin/cli/qgemm"
  loadtest="$bin/loadtest/qgemm_loadtest"
  weights="$ROOT/demo/minilm_block.safetensors"
}

say_what_next() {
  cat <<TEXT

The programs, each with --help:
  $server
  $cli
  $loadtest
Next:
  tools/install.sh --prefix DIR   puts them into DIR/bin, the C++ library beside
  README.md, "Use it"             a server, an upload and a multiplication
  docs/client.md                  the same from C++
TEXT
}

bundle=""
cuda=no
while [ "$#" -gt 0 ]; do
  case "$1" in
    --bundle)
      [ "$#" -ge 2 ] || usage
      bundle="$2"
      shift
      ;;
    --bundle=*) bundle="${1#--bundle=}" ;;
    --cuda) cuda=yes ;;
    *) usage ;;
  esac
  shift
done

# The copy in PREFIX/share/qgemm/tools runs PREFIX's own binaries.
if [ -z "$bundle" ] && [ ! -e "$ROOT/WORKSPACE" ]; then bundle="$ROOT/../.."; fi

if [ -n "$bundle" ]; then
  bundle="$(cd "$bundle" && pwd)"
  server="$bundle/bin/qgemm_server"
  cli="$bundle/bin/qgemm"
  loadtest="$bundle/bin/qgemm_loadtest"
  weights="$bundle/share/qgemm/demo/minilm_block.safetensors"
  exec "$TOOLS/run.sh" "$server" "$cli" "$loadtest" "$weights"
fi
build
"$TOOLS/run.sh" "$server" "$cli" "$loadtest" "$weights"
say_what_next
