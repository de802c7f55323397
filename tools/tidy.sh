#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# clang-tidy, with Clang's thread-safety analysis, over changed C++ sources.
#
# Usage: tools/tidy.sh [FILE ...]
# Default: sources that differ from QGEMM_TIDY_BASE (a commit; default: the
# parent of HEAD), uncommitted ones included; where a header changed, also the
# source beside it.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

changed_sources() {
  local base="${QGEMM_TIDY_BASE:-HEAD~1}"
  git rev-parse --verify --quiet "$base" >/dev/null || base="HEAD"
  {
    git diff --name-only --diff-filter=d "$base" -- '*.cc' '*.h'
    git ls-files --others --exclude-standard -- '*.cc' '*.h'
  } | sed 's/\.h$/.cc/' | sort -u | while read -r file; do
    [ -f "$file" ] && printf '%s\n' "$file"
  done
}

files=("$@")
if [ "${#files[@]}" -eq 0 ]; then
  mapfile -t files < <(changed_sources)
fi
cuda_home="${CUDA_HOME:-/usr/local/cuda}"
if [ ! -d "$cuda_home/include" ]; then
  echo "tidy: no CUDA toolkit; leaving kernels/cuda and its tests out"
  mapfile -t files < <(printf '%s\n' "${files[@]}" | grep -v '/cuda/')
fi
if [ "${#files[@]}" -eq 0 ] || [ -z "${files[0]}" ]; then
  echo "tidy: no changed sources"
  exit 0
fi
tools/bazel.sh build --noshow_progress //proto/... || exit 1
generated="$(tools/bazel.sh info -c opt bazel-bin 2>/dev/null)"
echo "tidy: ${#files[@]} sources"
# The instruction sets that some microkernels are compiled for; only analysed.
printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -n 4 sh -c '
  generated="$1"; cuda="$2"; shift 2
  clang-tidy-14 --quiet "$@" -- -std=c++17 -I. -Iclient/include \
    -isystem "$generated/proto" \
    -isystem "$cuda/include" \
    -Wthread-safety -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni \
    -mavx2 -mfma -mf16c 2>&1 |
    { ! grep -E "(warning|error):" -A 4; }' sh "$generated" "$cuda_home"
