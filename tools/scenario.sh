#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs a named scenario of bench/scenarios: starts a server, loads it, keeps
# NAME.json and NAME.html (and NAME.svg, the plot of latency by percentile).
#
# Usage: tools/scenario.sh [--bundle DIR] [--out DIR] NAME [LOADTEST FLAG ...]
#        tools/scenario.sh --list
#   --bundle DIR  run the programs in DIR/bin instead of building them
#   --out DIR     where the files go; default: the current folder
# Flags after the name are added to the scenario's. Ends with the load test's
# exit code.
set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
readonly ROOT
readonly SCENARIOS="$ROOT/bench/scenarios"

usage() {
  echo "usage: tools/scenario.sh [--bundle DIR] [--out DIR] NAME [FLAG ...]" >&2
  echo "       tools/scenario.sh --list" >&2
  exit 2
}

# The first comment of each scenario, up to its first full stop.
list() {
  local file
  for file in "$SCENARIOS"/*.txt; do
    printf '%-22s %s\n' "$(basename "$file" .txt)" \
      "$(sed -n 's/^# //p' "$file" | tr '\n' ' ' | sed 's/\([.:]\) .*/\1/')"
  done
}

# The flags that the scenario has for a program, a word a line.
flags_for() {
  sed -n "s/^$1 *//p" "$SCENARIOS/$name.txt" | tr -s ' ' '\n'
}

bundle=""
out=.
while [ "$#" -gt 0 ]; do
  case "$1" in
    --list)
      list
      exit 0
      ;;
    --bundle | --out)
      [ "$#" -ge 2 ] || usage
      if [ "$1" = --bundle ]; then bundle="$2"; else out="$2"; fi
      shift 2
      ;;
    --*) usage ;;
    *) break ;;
  esac
done
[ "$#" -ge 1 ] || usage
readonly name="$1"
shift
if [ ! -f "$SCENARIOS/$name.txt" ]; then
  echo "scenario: there is no '$name'; there are:" >&2
  list >&2
  exit 2
fi

# The copy in PREFIX/share/qgemm/tools runs PREFIX's own programs.
if [ -z "$bundle" ] && [ ! -e "$ROOT/WORKSPACE" ]; then bundle="$ROOT/../.."; fi

if [ -n "$bundle" ]; then
  server="$bundle/bin/qgemm_server"
  loadtest="$bundle/bin/qgemm_loadtest"
else
  "$ROOT/tools/setup.sh"
  "$ROOT/tools/bazel.sh" build -c opt //server:qgemm_server \
    //client/loadtest:qgemm_loadtest
  bin="$("$ROOT/tools/bazel.sh" info -c opt bazel-bin)"
  server="$bin/server/qgemm_server"
  loadtest="$bin/client/loadtest/qgemm_loadtest"
fi

scratch="$(mktemp -d /tmp/qgemm-scenario.XXXXXX)"
server_pid=""
clean_up() {
  if [ -n "$server_pid" ]; then
    kill -TERM "$server_pid" 2>/dev/null || true
    wait "$server_pid" || true
  fi
  rm -rf "$scratch"
}
trap clean_up EXIT

mapfile -t server_flags < <(flags_for server)
mapfile -t loadtest_flags < <(flags_for loadtest)
"$server" --listen="unix:$scratch/socket" "${server_flags[@]}" \
  2>"$scratch/server.log" &
server_pid=$!
for _ in $(seq 600); do
  [ -S "$scratch/socket" ] && break
  kill -0 "$server_pid" 2>/dev/null || break
  sleep 0.1
done
if [ ! -S "$scratch/socket" ]; then
  echo "scenario: the server did not start:" >&2
  cat "$scratch/server.log" >&2
  exit 1
fi

mkdir -p "$out"
status=0
"$loadtest" --server="unix:$scratch/socket" --title="$name" \
  --json="$out/$name.json" --html="$out/$name.html" --svg="$out/$name.svg" \
  "${loadtest_flags[@]}" "$@" || status=$?
echo "scenario: $out/$name.json, .html and .svg"
exit "$status"
