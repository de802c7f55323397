# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# Counted checks of the suites in shell. Sourced by their scripts, which have set
# WORK, a scratch folder, and print the counts at their end.

passed=0
failed=0

# check WHAT COMMAND...: counts whether the command succeeds; shows its output if
# it does not.
check() {
  local what="$1"
  shift
  if "$@" >"$WORK/log" 2>&1; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf 'FAILED: %s\n' "$what"
    tail -n 40 "$WORK/log"
  fi
}
