#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Sets everything up and runs every test: static checks, the unit,
# conformance and end-to-end suites, the fast ones again under the sanitizers,
# a stock Python client, the Python package in a clean environment, whole models
# against transformers, hostile clients, the load test's pages in a browser, the
# status page and the alerts with a real Prometheus, the unit, manifests and
# proxies' files, an installed consumer and README's commands. Prints the time of
# each stage, names what failed and ends with one line:
# N passed, N failed, N skipped.
#
# Usage: tools/test.sh [STAGE ...]    (default: all, in this order)
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

readonly ALL_STAGES=(
  setup format layering golden unit tidy nocuda asan tsan python package models
  hostile browser ops deploy install readme
)
# ASan and UBSan together run every suite but those of the load test and the
# benches, which no client reaches, and those tagged nosanitize, which measure the
# process's memory, drive other processes or are too slow there.
# TSan runs those tagged tsan, where threads meet.
readonly ADDRESS_FILTER=-nosanitize
# The checks of the tree itself have a stage of their own.
readonly SUITES=(//tests/... -//tests/tree/...)
readonly ADDRESS_SUITES=("${SUITES[@]}" -//tests/loadtest/... -//tests/bench/...)
readonly THREAD_FILTER=tsan
# Without the CUDA toolkit. The output tree is the default build's: objects that
# the toolkit does not reach are the same, and compiled once.
readonly NO_CUDA=(--repo_env=QGEMM_CUDA=off)
readonly CACHE_DIR="${QGEMM_CACHE_DIR:-${HOME:-/root}/.cache/qgemm}"
# Bazel takes nothing out of its disk cache; a run from nothing fills some 20 GB.
readonly DISK_CACHE_BYTES="${QGEMM_DISK_CACHE_BYTES:-30000000000}"
LOG_DIR="$(mktemp -d)"
readonly LOG_DIR
trap 'rm -rf "$LOG_DIR"' EXIT

passed=0
failed=0
skipped=0
summary=()
failures=()  # what failed, each with its stage

# Keeps the lines of the stage's log that name what failed.
keep_failures() {
  local line
  while IFS= read -r line; do
    failures+=("$stage: $line")
  done < <(grep -E '^ *(FAILED|FAIL:|ERROR:)|^-- .*: FAILED' "$1" | head -n 40)
}

# Adds the last "N passed, N failed[, N skipped]" line of a log.
count_line() {
  local line
  line="$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$1" | tail -n 1)"
  [[ "$line" =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed(,\ ([0-9]+))? ]] ||
    return 1
  passed=$((passed + BASH_REMATCH[1]))
  failed=$((failed + BASH_REMATCH[2]))
  skipped=$((skipped + ${BASH_REMATCH[4]:-0}))
}

# One check that passes or fails as a whole.
count_check() {
  if "$@"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    return 1
  fi
}

# A script that ends with its own count. One that ends badly without counting
# a failure counts as one.
count_script() {
  local log="$LOG_DIR/script.log" status before="$failed"
  "$@" 2>&1 | tee "$log"
  status="${PIPESTATUS[0]}"
  count_line "$log" || status=1
  if [ "$status" -ne 0 ] && [ "$failed" -eq "$before" ]; then
    failed=$((failed + 1))
  fi
  [ "$failed" -eq "$before" ] || keep_failures "$log"
  return "$status"
}

# Runs suites by Bazel, with the given flags and targets, and counts their cases.
bazel_targets() {
  local events="$LOG_DIR/events.json"
  rm -f "$events"
  tools/bazel.sh test --keep_going --noshow_progress --test_summary=terse \
    --build_event_json_file="$events" "$@"
  if [ ! -s "$events" ]; then
    failed=$((failed + 1))
    return 1
  fi
  count_script python3 tools/count_cases.py "$events"
}

clang_format_all() {
  git ls-files '*.h' '*.cc' '*.cu' '*.cuh' |
    xargs clang-format-14 --dry-run -Werror
}

# Leaves of the disk cache what was used last.
trim_disk_cache() {
  [ -d "$CACHE_DIR/disk_cache" ] || return 0
  find "$CACHE_DIR/disk_cache" -type f -printf '%A@ %s %p\n' | sort -rn |
    awk -v limit="$DISK_CACHE_BYTES" '(total += $2) > limit { print $3 }' |
    xargs -r rm -f
}

stage_setup() { trim_disk_cache && count_check bash tools/setup.sh test; }
stage_format() { count_check clang_format_all; }
stage_layering() { bazel_targets //tests/tree/...; }
stage_golden() {
  count_check "$CACHE_DIR/venv/bin/python" tests/golden/make_golden.py --check
}
stage_unit() { bazel_targets -- "${SUITES[@]}"; }
# The product without a CUDA toolkit: all of it builds, and says what it lacks.
stage_nocuda() {
  count_check tools/bazel.sh build --noshow_progress "${NO_CUDA[@]}" \
    //server/... //client/... //cli/... //loadtest/... //bench/... &&
    bazel_targets "${NO_CUDA[@]}" \
      //tests/kernels/backends/... //tests/kernels/cuda/...
}
stage_tidy() { count_check bash tools/tidy.sh; }
# The sanitizers see host code alone; where no GPU would run the device code, it
# is not compiled for them a second and third time.
sanitizer_flags() { [ -e /dev/nvidiactl ] || echo "${NO_CUDA[@]}"; }
stage_asan() {
  # shellcheck disable=SC2046
  bazel_targets --config=asan --config=ubsan --platform_suffix=-ubsan \
    --test_tag_filters="$ADDRESS_FILTER" --build_tests_only \
    $(sanitizer_flags) -- "${ADDRESS_SUITES[@]}"
}
stage_tsan() {
  # shellcheck disable=SC2046
  bazel_targets --config=tsan --platform_suffix=-tsan \
    --test_tag_filters="$THREAD_FILTER" --build_tests_only \
    $(sanitizer_flags) -- "${SUITES[@]}"
}
stage_python() { count_script bash tests/python/run.sh; }
stage_package() { count_script bash python/tests/run.sh; }
stage_models() { count_script bash python/tests/models/run.sh; }
# Two minutes of hostile clients, each at a tenth of its size;
# tools/nightly_hostile.sh has them at full size.
stage_hostile() {
  count_script bash tests/hostile/run.sh --minutes=2 --scale=0.1
}
stage_browser() {
  count_script bash tests/loadtest/report/report_test.sh
}
stage_ops() { count_script bash tests/ops/ops_test.sh; }
# The package's own test, tests/ops/deb_test.sh, and tests/network/run.sh run proxies
# and containers as root, for a minute or two each: by hand.
stage_deploy() { count_script bash tests/ops/deploy_test.sh; }
stage_install() { count_script bash tests/client/install_test.sh; }
stage_readme() { count_script bash tests/readme/readme_test.sh; }

run_stage() {
  local stage="$1" start="$SECONDS" result=ok
  printf '\n== %s\n' "$stage"
  "stage_$stage" || result=FAILED
  if [ "$result" = FAILED ]; then failures+=("$stage: FAILED"); fi
  summary+=("$(printf '%-9s %-6s %5d s' "$stage" "$result" \
    "$((SECONDS - start))")")
}

stages=("$@")
[ "${#stages[@]}" -gt 0 ] || stages=("${ALL_STAGES[@]}")
for stage in "${stages[@]}"; do
  if ! declare -F "stage_$stage" >/dev/null; then
    echo "no stage '$stage'; there are: ${ALL_STAGES[*]}" >&2
    exit 2
  fi
done
for stage in "${stages[@]}"; do run_stage "$stage"; done

printf '\n== time of each stage\n'
printf '%s\n' "${summary[@]}"
printf 'total %d s\n\n' "$SECONDS"
if [ "${#failures[@]}" -gt 0 ]; then
  printf '== what failed\n'
  printf '%s\n' "${failures[@]}" ''
fi
printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
