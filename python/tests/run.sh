#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Tests the Python package as a user has it: builds the wheel, installs it with pip
# into a clean environment, and runs its tests there against a real server, which is
# built unless one is given; once more with the oldest Protobuf that it takes. Checks
# its types by mypy. The environment is made anew each time and goes at the end.
# Ends with "N passed, N failed, N skipped".
#
# Usage: python/tests/run.sh [SERVER_BINARY]
set -uo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
readonly ROOT
WORK="$(mktemp -d)"
readonly WORK
trap 'rm -rf "$WORK"' EXIT
readonly CLEAN="$WORK/environment/bin/python"
export PYTHONDONTWRITEBYTECODE=1

# shellcheck source=tests/support/checks.sh
source "$ROOT/tests/support/checks.sh"
skipped=0

say() { printf 'python/tests: %s\n' "$*"; }

install() {
  "$CLEAN" -m pip install -q --disable-pip-version-check --retries=1 \
    --only-binary=:all: "$@"
}

make_environment() {
  "$ROOT/python/build_wheel.sh" "$WORK/wheel" || return
  say "making a clean environment with the wheel, ml_dtypes and mypy"
  python3 -m venv "$WORK/environment" &&
    install "$(echo "$WORK"/wheel/*.whl)[bf16]" mypy
}

build_server() {
  if [ $# -ge 1 ]; then
    server="$(realpath "$1")"
    return
  fi
  "$ROOT/tools/bazel.sh" build //server:qgemm_server &&
    server="$("$ROOT/tools/bazel.sh" info bazel-bin)/server/qgemm_server"
}

# suite WHAT: runs the tests and adds their counts.
suite() {
  say "tests with $1"
  (cd "$WORK" && QGEMM_SERVER_BINARY="$server" GRPC_VERBOSITY=NONE \
    "$CLEAN" -W error "$ROOT/tests/support/unittest_run.py" "$ROOT/python/tests") 2>&1 |
    tee "$WORK/suite"
  if [[ "$(tail -n 1 "$WORK/suite")" =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed,\ ([0-9]+) ]]
  then
    passed=$((passed + BASH_REMATCH[1]))
    failed=$((failed + BASH_REMATCH[2]))
    skipped=$((skipped + BASH_REMATCH[3]))
  else
    failed=$((failed + 1))
    echo "FAILED: the tests with $1 did not end"
  fi
}

types_are_right() {
  (cd "$WORK" && "$CLEAN" -m mypy --config-file "$ROOT/python/pyproject.toml")
}

build_server "$@" && make_environment || {
  echo "FAILED: the package or the server cannot be built"
  echo "0 passed, 1 failed, 0 skipped"
  exit 1
}
suite "the newest Protobuf"
check "mypy --strict" types_are_right
say "installing the oldest Protobuf"
check "pip install protobuf 4.21" install "protobuf==4.21.*"
suite "Protobuf 4.21"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
