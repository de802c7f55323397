#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The demo's run: everything after the binaries are there. tools/demo.sh finds
# or builds them and calls this.
#
# Usage: run.sh SERVER CLI LOADTEST WEIGHTS
set -euo pipefail

HERE="$(dirname "${BASH_SOURCE[0]}")"
readonly HERE
# shellcheck source=tools/demo/lib.sh
source "$HERE/lib.sh"

readonly SERVER="$1" CLI="$2" LOADTEST="$3" WEIGHTS="$4"
readonly BLOCK=encoder.layer.0
readonly LAYERS=(
  attention.self.query attention.self.key attention.self.value
  attention.output.dense intermediate.dense output.dense
)
# The shapes of those layers, for weights that the file does not hold.
readonly SHAPES=(384x384 384x384 384x384 384x384 384x1536 1536x384)
readonly ROWS=4  # of activations
# Label | flags of load and verify | flags of gemm. "random" in place of the
# file's weights: it holds fp16, and a dense layer stays what it is.
readonly FORMATS=(
  'fp16|--format=dense|'
  'bf16, random|random|--dtype=bf16'
  'kbit2|--format=kbit2|'
  'kbit3|--format=kbit3|'
  'kbit4|--format=kbit4|'
  'kbit5|--format=kbit5|'
  'kbit4, by server|--format=kbit4 --where=server|'
  'q4_0|--format=q4_0|'
  'q4_0, mode A8|--format=q4_0|--mode=A8'
  'ternary|--format=ternary|'
  'ternary, mode A32|--format=ternary|--mode=A32 --dtype=fp32'
  'int4|--format=int4|'
  'int4 asymmetric|--format=int4 --asymmetric|'
)
# One feed-forward layer of Llama 3 8B.
readonly LARGE=(--random=4096x14336 --format=kbit4)

for file in "$SERVER" "$CLI" "$LOADTEST" "$WEIGHTS"; do
  if [ ! -r "$file" ]; then
    echo "demo: $file is missing" >&2
    exit 1
  fi
done

SCRATCH="$(mktemp -d "${TMPDIR:-/tmp}/qgemm-demo.XXXXXX")"
readonly SCRATCH
readonly SOCKET="unix:$SCRATCH/socket"
server_pid=""

# Runs at every exit: leaves no server and no file, says what failed.
finish() {
  local status=$?
  if [ -n "$server_pid" ]; then
    kill -KILL "$server_pid" 2>/dev/null || true
    wait "$server_pid" 2>/dev/null || true
  fi
  if [ "$status" -ne 0 ]; then
    echo "demo: FAILED (exit $status); the server's last lines:" >&2
    tail -n 20 "$SCRATCH/server.log" >&2 || true
  fi
  rm -rf "$SCRATCH"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

start_server() {
  "$SERVER" --listen="$SOCKET" --listen=127.0.0.1:0 --backend=auto \
    --port_file="$SCRATCH/port" >"$SCRATCH/server.log" 2>&1 &
  server_pid=$!
  local tries=0
  until [ -s "$SCRATCH/port" ]; do
    if ! kill -0 "$server_pid" 2>/dev/null; then
      echo "demo: the server did not start" >&2
      return 1
    fi
    tries=$((tries + 1))
    if [ "$tries" -gt 600 ]; then
      echo "demo: the server took no port within 60 s" >&2
      return 1
    fi
    sleep 0.1
  done
}

stop_server() {
  local status=0
  kill -TERM "$server_pid"
  wait "$server_pid" || status=$?
  server_pid=""
  if [ "$status" -ne 0 ]; then
    echo "demo: the server ended with $status after SIGTERM" >&2
    return 1
  fi
}

qgemm() { "$CLI" "$@" --server="$SOCKET"; }

print_row() { printf '%-20s %6s %10s %15s %9s %10s\n' "$@"; }

# Loads the six layers one way, multiplies, checks each against fp64 and
# prints their line of the table. Results stay in $SCRATCH/<row>.<layer>.npy.
show_format() {
  local row="$1" label load_flags gemm_flags layer name
  local bytes=() worst=() kernel=() source=() products=()
  IFS='|' read -r label load_flags gemm_flags <<<"$2"
  local load=() gemm=()
  read -r -a load <<<"$load_flags"
  read -r -a gemm <<<"$gemm_flags"
  for layer in "${!LAYERS[@]}"; do
    name="demo/$row/${LAYERS[$layer]}"
    source=(--tensor="$BLOCK.${LAYERS[$layer]}.weight" "${load[@]}")
    local file=("$WEIGHTS") from=(--from="$WEIGHTS")
    if [ "$load_flags" = random ]; then
      source=(--random="${SHAPES[$layer]}" --format=dense)
      file=() from=()
    fi
    qgemm load "${file[@]}" --name="$name" "${source[@]}" --json \
      >"$SCRATCH/load.json"
    if ! qgemm gemm "$name" --m="$ROWS" --out_dtype=fp32 "${gemm[@]}" \
      --out="$SCRATCH/$row.$layer.npy" --verify "${from[@]}" "${source[@]}" \
      --json >"$SCRATCH/gemm.json" 2>"$SCRATCH/gemm.error"; then
      # A backend need not offer the modes beyond A16.
      if grep -q UNIMPLEMENTED "$SCRATCH/gemm.error"; then
        printf '%-20s not offered by this backend\n' "$label"
        return
      fi
      cat "$SCRATCH/gemm.error" >&2
      return 1
    fi
    bytes+=("$(json_value "$SCRATCH/load.json" resident_bytes)")
    worst+=("$(json_value "$SCRATCH/gemm.json" worst_ratio)")
    kernel+=("$(json_value "$SCRATCH/gemm.json" kernel)")
    products+=("$SCRATCH/$row.$layer.npy")
  done
  local sqnr=-
  if [ "$row" -eq 0 ]; then
    originals=("${products[@]}")
  elif [ "$load_flags" != random ]; then
    sqnr="$(sqnr_db "${originals[@]}" -- "${products[@]}")"
  fi
  print_row "$label" "${#LAYERS[@]}" "$(sum "${bytes[@]}")" \
    "$(largest "${worst[@]}")" "$sqnr" "$(sum "${kernel[@]}")"
}

show_large() {
  qgemm load --name=demo/large "${LARGE[@]}" --json >"$SCRATCH/load.json"
  qgemm gemm demo/large --verify "${LARGE[@]}" --json >"$SCRATCH/gemm.json"
  local bytes worst kernel
  bytes="$(json_value "$SCRATCH/load.json" resident_bytes)"
  worst="$(json_value "$SCRATCH/gemm.json" worst_ratio)"
  kernel="$(json_value "$SCRATCH/gemm.json" kernel)"
  print_row 'kbit4, 4096x14336' 1 "$bytes" "$(largest "$worst")" - \
    "$(sum "$kernel")"
}

readonly BEGIN="$SECONDS"
start_server
echo "== server"
"$CLI" info --server="127.0.0.1:$(head -n 1 "$SCRATCH/port")"

cat <<EOF

== six linear layers of one block of all-MiniLM-L6-v2 in every format, and one
   layer of the size of Llama-3-8B's; $ROWS rows of activations (the large layer: 1)
   error: the largest, as a share of its tolerance; every product is compared
          with fp64 element by element, and above 1 the demo fails
   SQNR:  of the products, against those of the fp16 weights

EOF
print_row format layers bytes error/tolerance 'SQNR dB' 'kernel us'
originals=()  # products of the first row
for row in "${!FORMATS[@]}"; do show_format "$row" "${FORMATS[$row]}"; done
show_large

echo
"$HERE/minilm.sh" "$SOCKET"

echo
echo "== load test"
"$LOADTEST" --server="$SOCKET" --synthetic=4096x4096 --format=kbit4 \
  --concurrency=4 --duration=3s --warmup=500ms --verify=sample

stop_server
echo
echo "demo: all products right, server stopped cleanly;" \
  "$((SECONDS - BEGIN)) s without the build"
