#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks a bundle on the machine it is unpacked on: every test binary beside
# this script, then the quick bench. Ends with "N passed, N failed".
#
# Usage: gpu_check.sh [RESULTS_FOLDER]   (default: ./results)
# GTEST_FILTER, as ever, chooses test cases.
set -uo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
readonly ROOT
RESULTS="$(realpath -m "${1:-results}")"
readonly RESULTS
export LD_LIBRARY_PATH="$ROOT/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

passed=0
failed=0
mkdir -p "$RESULTS" || exit
cd "$ROOT" || exit  # where a test finds server/qgemm_server

# check NAME COMMAND...: one log a command, its end shown if it fails. Test
# cases that skipped themselves are counted: without a GPU many do.
check() {
  local name="$1" log="$RESULTS/$1.log" start="$SECONDS" skips
  shift
  if "$@" >"$log" 2>&1; then
    passed=$((passed + 1))
    skips="$(grep -cE '^\[  SKIPPED \] .* \([0-9]+ ms\)$' "$log")"
    printf 'ok      %4d s  %s, %d cases skipped\n' "$((SECONDS - start))" \
      "$name" "$skips"
  else
    failed=$((failed + 1))
    printf 'FAILED  %4d s  %s\n' "$((SECONDS - start))" "$name"
    grep -E '^\[  FAILED  \]|Failure|terminate|error' "$log" | head -n 20
    tail -n 20 "$log"
  fi
}

if command -v nvidia-smi >/dev/null; then
  nvidia-smi --query-gpu=name,driver_version,clocks.max.sm,memory.total \
    --format=csv,noheader
fi
for binary in "$ROOT"/tests/*; do
  check "$(basename "$binary")" "$binary"
done
check kernel_bench "$ROOT/bin/kernel_bench" --backend=cuda --quick \
  --json="$RESULTS/bench.json"
[ ! -s "$RESULTS/kernel_bench.log" ] || cat "$RESULTS/kernel_bench.log"
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
