#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs a named scenario of bench/scenarios: starts a server, loads it, keeps
# NAME.json, draws NAME.html from it where Python has vl-convert, and prints the
# server's memory and open files before and after the load.
#
# A scenario has lines "server FLAGS" and "loadtest FLAGS", and may have
# "variant VARIANT server FLAGS" and "variant VARIANT loadtest FLAGS": the same
# with more flags, run after it as NAME-VARIANT and compared with it where
# Python has numpy. tools/setup.sh test installs both. A line "restart COUNT
# SECONDS" gives the server a state directory, kills it by SIGKILL so often, each
# time so long after it served, starts it again, and prints how long that took.
#
# Usage: tools/scenario.sh [--bundle DIR] [--out DIR] NAME [LOADTEST FLAG ...]
#        tools/scenario.sh --list
#   --bundle DIR  run the programs in DIR/bin instead of building them
#   --out DIR     where the files go; default: the current folder
# Flags after the name are added to the scenario's, and its variants': one value
# replaces another, values of a list join the list. Ends with
# the exit code of the first load test that failed.
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

# flags_for VARIANT PROGRAM: the flags of the scenario, and of the variant if it
# is not empty, a word a line.
flags_for() {
  local file="$SCENARIOS/$name.txt"
  {
    sed -n "s/^$2 *//p" "$file"
    if [ -n "$1" ]; then sed -n "s/^variant *$1 *$2 *//p" "$file"; fi
  } | tr -s ' ' '\n'
}

# The variants, in the order of their first lines.
variants() {
  sed -n 's/^variant *\([^ ]*\) .*/\1/p' "$SCENARIOS/$name.txt" |
    awk '!seen[$0]++'
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
    //loadtest:qgemm_loadtest
  bin="$("$ROOT/tools/bazel.sh" info -c opt bazel-bin)"
  server="$bin/server/qgemm_server"
  loadtest="$bin/loadtest/qgemm_loadtest"
fi

scratch="$(mktemp -d /tmp/qgemm-scenario.XXXXXX)"
server_pid=""
load_pid=""  # of a load beside which the server is restarted
stop_server() {
  [ -n "$server_pid" ] || return 0
  kill -TERM "$server_pid" 2>/dev/null || true
  wait "$server_pid" || true
  server_pid=""
}
clean_up() {
  [ -z "$load_pid" ] || kill "$load_pid" 2>/dev/null || true
  stop_server
  rm -rf "$scratch"
}
trap clean_up EXIT

# start_server FLAG ...
start_server() {
  rm -f "$scratch/socket"
  "$server" --listen="unix:$scratch/socket" "$@" 2>"$scratch/server.log" &
  server_pid=$!
  for _ in $(seq 6000); do
    [ -S "$scratch/socket" ] && return 0
    kill -0 "$server_pid" 2>/dev/null || break
    sleep 0.01
  done
  echo "scenario: the server did not start:" >&2
  cat "$scratch/server.log" >&2
  exit 1
}

# restart_server FLAG ...: kills the server as a crash does, starts it again and
# prints the times until it listens, and until it has all its layers in memory.
restart_server() {
  local killed listens
  killed="$(date +%s%N)"
  kill -KILL "$server_pid"
  wait "$server_pid" 2>/dev/null || true
  start_server "$@"
  listens="$(date +%s%N)"
  until grep -q "health state=serving" "$scratch/server.log"; do
    kill -0 "$server_pid" || exit 1
    sleep 0.01
  done
  echo "restart    listens after $(((listens - killed) / 1000000)) ms," \
    "serves after $((($(date +%s%N) - killed) / 1000000)) ms"
}

# restart_servers "COUNT SECONDS" FLAG ...: does so COUNT times.
restart_servers() {
  local count pause
  read -r count pause <<<"$1"
  shift
  for _ in $(seq "$count"); do
    sleep "$pause"
    restart_server "$@"
  done
}

# The server's memory and open files: "312 MiB, 41 files".
footprint() {
  local kib files
  kib="$(awk '/^VmRSS:/ { print $2 }' "/proc/$server_pid/status")"
  files="$(find "/proc/$server_pid/fd" -mindepth 1 | wc -l)"
  echo "$((kib / 1024)) MiB, $files files"
}

# report TOOL FLAG ...: runs a Python tool that reads reports. A machine that
# only measures may lack its packages; the reports are complete without it.
readonly VENV="${QGEMM_CACHE_DIR:-${HOME:-/root}/.cache/qgemm}/venv/bin/python"
report() {
  local python=python3 tool="$1"
  shift
  [ ! -x "$VENV" ] || python="$VENV"
  "$python" "$ROOT/tools/$tool" "$@" ||
    echo "scenario: run tools/$tool $* where its packages are installed"
}

# run VARIANT TITLE FLAG ...: a server, its load, and the reports TITLE.*.
run() {
  local variant="$1" title="$2" status=0 before
  shift 2
  local server_flags loadtest_flags
  mapfile -t server_flags < <(flags_for "$variant" server)
  mapfile -t loadtest_flags < <(flags_for "$variant" loadtest)
  local restart
  restart="$(sed -n 's/^restart *//p' "$SCENARIOS/$name.txt")"
  [ -z "$restart" ] || server_flags+=(--state_dir="$scratch/state")
  start_server "${server_flags[@]}"
  before="$(footprint)"
  local load=("$loadtest" --server="unix:$scratch/socket" --title="$title"
    --json="$out/$title.json" "${loadtest_flags[@]}" "$@")
  if [ -z "$restart" ]; then
    "${load[@]}" || status=$?
  else
    "${load[@]}" &
    load_pid=$!
    restart_servers "$restart" "${server_flags[@]}"
    wait "$load_pid" || status=$?
    load_pid=""
  fi
  echo "footprint  server: $before before, $(footprint) after"
  stop_server
  rm -rf "$scratch/state"
  echo "scenario: $out/$title.json"
  report render_report.py "$out/$title.json" --html="$out/$title.html"
  return "$status"
}

mkdir -p "$out"
status=0
run "" "$name" "$@" || status=$?
for variant in $(variants); do
  echo
  run "$variant" "$name-$variant" "$@" || status=$((status ? status : $?))
  echo
  report compare_reports.py "$out/$name.json" "$out/$name-$variant.json"
done
exit "$status"
