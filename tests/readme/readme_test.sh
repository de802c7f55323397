#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the commands that README shows. Every ```sh block is one case, run in
# order in one scratch folder with the installed binaries on PATH; the demo is
# run twice, from the tree and from the installed prefix, with its model; so are
# the scenarios, briefly. tools/test.sh itself is not run again. Ends with "N passed, N failed".
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit
ROOT="$PWD"
readonly ROOT
SCRATCH="$(mktemp -d)"
readonly SCRATCH
readonly PREFIX="$SCRATCH/prefix"

passed=0
failed=0

stop_servers() {
  pkill -TERM -f "$PREFIX/bin/qgemm_server" 2>/dev/null
  rm -rf "$SCRATCH"
}
trap stop_servers EXIT

check() {
  local name="$1"
  shift
  echo "-- $name"
  if "$@"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAILED $name"
  fi
}

# Writes README's sh blocks to files block_01.sh, block_02.sh, …
extract_blocks() {
  awk -v folder="$SCRATCH" '
    /^```sh$/ { inside = 1; file = sprintf("%s/block_%02d.sh", folder, ++n)
                next }
    /^```$/ { inside = 0; next }
    inside { print > file }' README.md
}

# A block runs in the tree with the installed binaries; lines that run the
# test script, or clone, are for a reader and not repeated here.
run_block() {
  grep -vE '^(tools/test\.sh|git clone|cd qgemm)' "$1" >"$1.run"
  PATH="$PREFIX/bin:$PATH" timeout 300 bash -euo pipefail "$1.run"
}

# The tree's demo has made the environment of the model before.
installed_demo() {
  bash "$ROOT/tools/demo.sh" --bundle "$PREFIX" | tee "$SCRATCH/demo.log"
}
demo_ran_model() { grep -q '^kbit5 .* Gemm calls ' "$SCRATCH/demo.log"; }
leaves_model_out() {
  QGEMM_CACHE_DIR="$SCRATCH/empty" \
    "$PREFIX/share/qgemm/tools/demo/minilm.sh" "unix:$SCRATCH/nobody" |
    grep 'left out'
}

table_is_current() { python3 tools/readme_table.py --check; }

check "install" tools/install.sh --prefix "$PREFIX"
extract_blocks
for block in "$SCRATCH"/block_??.sh; do
  check "README: $(basename "$block" .sh)" run_block "$block"
done
check "README: table is made from the committed results" table_is_current
check "demo from the installed prefix" installed_demo
check "the installed demo runs its model" demo_ran_model
check "without its environment the model is left out" leaves_model_out
# Every scenario, for a moment each: its flags are accepted and nothing fails. The
# layers are small, so that answers come within the moment on a slow machine.
cat > "$SCRATCH/model.json" <<'END'
{"blocks": 2, "hidden": 256, "feed_forward": 512, "key_value": 64,
 "vocabulary": 1024}
END
sed -i -E -e 's/(--synthetic=)[0-9]+x[0-9]+/\1512x512/' \
  -e "s#(--program_walk=)[a-z0-9-]+#\1$SCRATCH/model.json#" \
  "$PREFIX"/share/qgemm/bench/scenarios/*.txt
for scenario in bench/scenarios/*.txt; do
  name="$(basename "$scenario" .txt)"
  [ "$name" = peak ] && continue  # a search takes as long as it takes
  if [ "$name" = program-walk-device ] && ! nvidia-smi -L >/dev/null 2>&1; then
    continue  # it needs a GPU
  fi
  few_layers=()
  if grep -q -e --walk= "$scenario"; then few_layers=(--walk_blocks=1); fi
  check "scenario $name" "$PREFIX/share/qgemm/tools/scenario.sh" \
    --out "$SCRATCH" "$name" --duration=300ms --warmup=50ms --max_lag=1h \
    "${few_layers[@]}"
done

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
