#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds qgemm for other machines, by --config=portable, and lays it out in
# dist/qgemm-bundle beside dist/qgemm-bundle.tar.xz:
#   bin/    qgemm_server, qgemm_holder, qgemm, qgemm_loadtest, kernel_bench,
#           minimal_client
#   tests/  the conformance suite, the tests of the CUDA backend and that of a
#           server whose backend fails, for which server/ links to bin/
#   lib/    prometheus-cpp and what it links, for the server
#   share/qgemm/  the protos, the demo's weights and scripts, the load test's
#                 scenarios
#   gpu_check.sh  runs the tests and the quick bench on a GPU machine
# The bundle needs libc and, for a GPU, its driver and the system's cuBLAS.
#
#
# Then makes packages for Debian 12 in dist/ (tools/package/deb.sh): qgemm, the
# programs, and libqgemm-dev, the client library.
#
# Usage: tools/package.sh    (BAZEL_FLAGS=--define=cuda_arch=all, the default,
# makes machine code for every supported GPU)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly MAX_BYTES=$((40 * 1000 * 1000))
readonly BUNDLE=dist/qgemm-bundle
readonly FAILURE_TEST=//tests/end_to_end:failing_process_test
readonly BINARIES=(
  //server:qgemm_server //server/keep:qgemm_holder //cli:qgemm
  //loadtest:qgemm_loadtest
  //bench:backend_bench //bench:kernel_bench //bench:minimal_client
)
# Libraries of libc, which every machine has.
readonly LIBC='^(linux-vdso|ld-linux.*|libc|libm|libdl|librt|libpthread)\.so'
export BAZEL_FLAGS="${BAZEL_FLAGS:---define=cuda_arch=all}"

say() { printf 'package: %s\n' "$*"; }

# Prints the labels of the bundle's tests. Without a CUDA toolkit some of them
# are not built.
test_labels() {
  tools/bazel.sh query --noshow_progress \
    "kind(cc_test, //tests/conformance/... + //tests/kernels/cuda/... +
      $FAILURE_TEST)" \
    2>/dev/null
}

# install_label LABEL FOLDER: copies a built binary without its symbols.
install_label() {
  local path="${1#//}" binary
  binary="$built/${path/://}"
  [ -f "$binary" ] || return 0
  install -D -m 755 "$binary" "$2/${path##*:}"
  strip --strip-all "$2/${path##*:}"
}

# Copies the server's shared libraries but libc's: prometheus-cpp and its own.
install_libraries() {
  local name arrow path
  while read -r name arrow path _; do
    [ "$arrow" = "=>" ] || continue
    if [[ "$name" =~ $LIBC ]]; then continue; fi
    if [ ! -f "$path" ]; then
      echo "package: $name is not installed" >&2
      return 1
    fi
    install -D -m 644 "$path" "$BUNDLE/lib/$name"
  done < <(ldd "$built/server/qgemm_server")
}

install_demo() {
  local share="$BUNDLE/share/qgemm" file
  for file in demo/minilm_block.safetensors demo/README.md LICENSE \
    tools/demo/lib.sh tools/demo/minilm/*.py \
    proto/qgemm/v1/program.proto proto/qgemm/v1/qgemm.proto; do
    install -D -m 644 "$file" "$share/$file"
  done
  for file in tools/demo.sh tools/demo/run.sh tools/demo/minilm.sh; do
    install -D -m 755 "$file" "$share/$file"
  done
  install -m 755 tools/package/gpu_check.sh "$BUNDLE/gpu_check.sh"
}

install_scenarios() {
  local share="$BUNDLE/share/qgemm"
  install -D -m 755 tools/scenario.sh "$share/tools/scenario.sh"
  install -m 755 -t "$share/tools" tools/render_report.py tools/compare_reports.py
  install -m 644 -t "$share/tools" tools/report_*.py tools/report_page.html
  install -D -m 755 bench/self_overhead.sh "$share/bench/self_overhead.sh"
  install -D -m 644 -t "$share/bench/scenarios" bench/scenarios/*.txt
}

tools/setup.sh build
mapfile -t tests < <(test_labels)
if [ "${#tests[@]}" -eq 0 ]; then
  echo "package: the query for the tests found none" >&2
  exit 1
fi
say "building"
# Patterns, so that a build without the toolkit skips the targets that need it.
tools/bazel.sh build --noshow_progress --config=portable "${BINARIES[@]}" \
  //tests/conformance/... //tests/kernels/cuda/... "$FAILURE_TEST"
built="$(tools/bazel.sh info --config=portable bazel-bin 2>/dev/null)"
rm -rf "$BUNDLE" "$BUNDLE.tar.xz"
for label in "${BINARIES[@]}"; do install_label "$label" "$BUNDLE/bin"; done
for label in "${tests[@]}"; do install_label "$label" "$BUNDLE/tests"; done
mkdir "$BUNDLE/server"
ln -s ../bin/qgemm_server "$BUNDLE/server/qgemm_server"
install_libraries
install_demo
install_scenarios
# The binaries hold the same device code: the dictionary reaches over several.
tar -C dist -cf - qgemm-bundle |
  xz -T1 --lzma2=preset=4,dict=128MiB >"$BUNDLE.tar.xz"
bytes="$(stat -c %s "$BUNDLE.tar.xz")"
say "$BUNDLE: $(du -sb "$BUNDLE" | cut -f1) bytes; $BUNDLE.tar.xz: $bytes bytes"
if [ "$bytes" -gt "$MAX_BYTES" ]; then
  echo "package: the archive is larger than $MAX_BYTES bytes" >&2
  exit 1
fi
tools/install.sh --prefix dist/prefix
rm -f dist/*.deb
tools/package/deb.sh "$BUNDLE/bin" dist 1 dist/prefix
