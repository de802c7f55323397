#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs qgemm under a temporary prefix and builds programs outside the tree
# against it, with plain g++ and pkg-config and with CMake, then runs them
# against the installed server. Ends with "N passed, N failed".
#
# Usage: tests/client/install_test.sh
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly EXAMPLES=(load_and_multiply async_calls quantize_on_client
  run_program several_servers stream_calls)
WORK="$(mktemp -d /tmp/qgemm_install_XXXXXX)"
readonly WORK
readonly PREFIX="$WORK/prefix"
readonly TARGET="unix:$WORK/s"
server=""
# shellcheck source=tests/support/checks.sh
source tests/support/checks.sh

cleanup() {
  [ -z "$server" ] || kill "$server" 2>/dev/null
  wait
  rm -rf "$WORK"
}
trap cleanup EXIT

compile_with_pkg_config() {
  local flags
  flags="$(PKG_CONFIG_PATH="$PREFIX/lib/pkgconfig" \
    pkg-config --cflags --libs qgemm)" || return 1
  # shellcheck disable=SC2086  # a list of flags
  g++ "$WORK/consumer/$1.cc" -o "$WORK/$1" $flags
}

write_cmake_project() {
  cat >"$WORK/consumer/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.18)
project(consumer CXX)
find_package(qgemm 0.1 REQUIRED)
add_executable(by_cmake load_and_multiply.cc)
target_link_libraries(by_cmake qgemm::client)
END
}

compile_with_cmake() {
  cmake -S "$WORK/consumer" -B "$WORK/build" \
    -DCMAKE_PREFIX_PATH="$PREFIX" && cmake --build "$WORK/build"
}

# A user's include path gains one folder and no unprefixed macro.
only_the_folder_qgemm() {
  [ -f "$PREFIX/include/qgemm/client.h" ] || return 1
  [ "$(ls "$PREFIX/include")" = qgemm ] || return 1
  ! grep -rnE '^ *# *define ' "$PREFIX/include" | grep -v 'define QGEMM_'
}

# Headers include installed ones and the system's.
only_installed_headers() {
  ! grep -rhoP '^#include "\K[^"]+' "$PREFIX/include/qgemm" | sort -u |
    grep -v '^absl/' | while read -r header; do
    [ -f "$PREFIX/include/$header" ] || echo "missing $header"
  done | grep .
}

# Each public header compiles by itself, without a warning.
each_header_compiles() {
  local header
  for header in "$PREFIX"/include/qgemm/*.h; do
    echo "#include <qgemm/$(basename "$header")>" |
      g++ -std=c++17 -Wall -Wextra -Werror -fsyntax-only \
        "-I$PREFIX/include" -x c++ - || return 1
  done
}

check "install.sh" tools/install.sh --prefix "$PREFIX"
check "only include/qgemm is installed" only_the_folder_qgemm
check "headers include installed ones alone" only_installed_headers
check "each header compiles by itself" each_header_compiles
for binary in qgemm_server qgemm qgemm_loadtest; do
  check "$binary is installed" test -x "$PREFIX/bin/$binary"
done
mkdir "$WORK/consumer"
for example in "${EXAMPLES[@]}"; do
  cp "client/examples/$example.cc" "$WORK/consumer/"
  check "g++ and pkg-config: $example" compile_with_pkg_config "$example"
done
"$PREFIX/bin/qgemm_server" "--listen=$TARGET" >"$WORK/server.log" 2>&1 &
server=$!
check "qgemm info" "$PREFIX/bin/qgemm" info "--server=$TARGET" \
  --connect_timeout=60s
for example in "${EXAMPLES[@]}"; do
  check "run $example" "$WORK/$example" "$TARGET"
done
if command -v cmake >/dev/null; then
  write_cmake_project
  check "CMake: load_and_multiply" compile_with_cmake
  check "run load_and_multiply built by CMake" "$WORK/build/by_cmake" "$TARGET"
fi
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
