# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# What the suites in Python share before their first test: the environment, the
# program under test and the stubs of the protos. Sourced by their scripts, which
# have set -e; sets ROOT, the tree, and PYTHON, the interpreter of the environment
# that SUITE_ENVIRONMENT names, of those that tools/setup.sh makes (venv).

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
readonly ROOT
ENVIRONMENTS="${QGEMM_CACHE_DIR:-${HOME:-/root}/.cache/qgemm}"
readonly PYTHON="$ENVIRONMENTS/${SUITE_ENVIRONMENT:-venv}/bin/python"
export PYTHONDONTWRITEBYTECODE=1

# need MODULES [PROGRAM ...]: sets the machine up for tests unless PYTHON imports
# all modules, named with commas between them, and all programs are on PATH.
need() {
  local modules="$1"
  shift
  if ! type "$@" >/dev/null 2>&1 ||
      ! "$PYTHON" -c "import $modules" 2>/dev/null; then
    "$ROOT/tools/setup.sh" test
  fi
}

# find_program LABEL [FILE]: sets program to FILE, or to what Bazel builds as
# LABEL, //FOLDER:NAME, if none is given. The path is absolute.
# shellcheck disable=SC2034  # program is for the script that sources this
find_program() {
  local path="${1#//}" bin
  if [ $# -ge 2 ]; then
    program="$(realpath "$2")"
    return
  fi
  "$ROOT/tools/bazel.sh" build "$1"
  bin="$("$ROOT/tools/bazel.sh" info bazel-bin)"
  program="$bin/${path/://}"
}

# make_stubs PROTO ...: generates the Python code of files below proto/, and of
# program.proto, which they import, into STUBS, a folder that goes when the
# script ends.
make_stubs() {
  STUBS="$(mktemp -d)"
  readonly STUBS
  trap 'rm -rf "$STUBS"' EXIT
  "$PYTHON" -m grpc_tools.protoc -I "$ROOT/proto" --python_out="$STUBS" \
    --grpc_python_out="$STUBS" qgemm/v1/program.proto "$@"
}

# run_unittests FOLDER [--no_skips]: runs the folder's tests and counts them.
run_unittests() { "$PYTHON" "$ROOT/tests/support/unittest_run.py" "$@"; }
