#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What the load test adds to a request: its median latency beside that of a
# minimal client, one request at a time over a Unix socket, in turn, K = N = 256.
#
# Usage: bench/self_overhead.sh [--bundle DIR] [ROUNDS]   (default: 7 rounds)
#   --bundle DIR  run the programs in DIR/bin instead of building them
set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
readonly ROOT
if [ "${1:-}" = --bundle ]; then
  server="$2/bin/qgemm_server"
  loadtest="$2/bin/qgemm_loadtest"
  minimal="$2/bin/minimal_client"
  shift 2
else
  "$ROOT/tools/bazel.sh" build -c opt //server:qgemm_server \
    //loadtest:qgemm_loadtest //bench:minimal_client
  bin="$("$ROOT/tools/bazel.sh" info -c opt bazel-bin)"
  server="$bin/server/qgemm_server"
  loadtest="$bin/loadtest/qgemm_loadtest"
  minimal="$bin/bench/minimal_client"
fi
readonly rounds="${1:-7}"
readonly SECONDS_EACH=2

scratch="$(mktemp -d /tmp/qgemm-overhead.XXXXXX)"
target="unix:$scratch/socket"
"$server" --listen="$target" 2>"$scratch/log" &
server_pid=$!
trap 'kill "$server_pid"; wait "$server_pid" || true; rm -rf "$scratch"' EXIT
for _ in $(seq 600); do
  [ -S "$scratch/socket" ] && break
  sleep 0.1
done

layer=(--server="$target" --synthetic=256x256)
"$loadtest" "${layer[@]}" --teardown=false --duration=0s >/dev/null
median_of() { sort -n | sed -n "$((($rounds + 1) / 2))p"; }
for _ in $(seq "$rounds"); do
  "$minimal" "$target" loadtest/kbit4/256x256/1/0 256 "$SECONDS_EACH" \
    >>"$scratch/minimal"
  "$loadtest" "${layer[@]}" --setup=false --teardown=false --warmup=500ms \
    --duration="${SECONDS_EACH}s" |
    sed -n 's/^latency us *p50 \([0-9.]*\).*/\1/p' >>"$scratch/loadtest"
done
a="$(median_of <"$scratch/minimal")"
b="$(median_of <"$scratch/loadtest")"
paste "$scratch/minimal" "$scratch/loadtest" |
  awk 'BEGIN { print "p50 us: minimal client, load test" } { print }'
awk -v a="$a" -v b="$b" 'BEGIN {
  printf "median: minimal client %.1f us, load test %.1f us, ratio %.3f\n",
    a, b, b / a }'
