#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Bazel with the project's disk cache outside the tree. Takes Bazel's own
# arguments:  tools/bazel.sh build //server:qgemm_server
# QGEMM_CACHE_DIR moves the cache; BAZEL_FLAGS adds flags to build and test.
set -euo pipefail

readonly CACHE_DIR="${QGEMM_CACHE_DIR:-${HOME:-/root}/.cache/qgemm}"
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly COMMAND="${1:?usage: tools/bazel.sh COMMAND [ARGUMENTS]}"
shift
readonly STARTUP=(
  "--output_user_root=$CACHE_DIR/bazel" --host_jvm_args=-Xmx1g
)
# Programs and headers that stand for the system packages of tools/setup.sh.
readonly PROGRAMS=(bazel g++ protoc grpc_cpp_plugin)
readonly HEADERS=(
  absl/status/statusor.h CLI/CLI.hpp google/protobuf/message.h
  grpcpp/grpcpp.h nlohmann/json.hpp openssl/sha.h prometheus/registry.h
)

check_packages() {
  local name missing=()
  for name in "${PROGRAMS[@]}"; do
    command -v "$name" >/dev/null || missing+=("$name")
  done
  for name in "${HEADERS[@]}"; do
    [ -e "/usr/include/$name" ] || missing+=("<$name>")
  done
  if [ "${#missing[@]}" -gt 0 ]; then
    echo "bazel.sh: not installed: ${missing[*]}; run tools/setup.sh" >&2
    exit 1
  fi
}

check_packages
case "$COMMAND" in
  build | test | run)
    read -r -a extra <<<"${BAZEL_FLAGS:-}"
    exec bazel "${STARTUP[@]}" "$COMMAND" \
      "--disk_cache=$CACHE_DIR/disk_cache" "${extra[@]}" "$@"
    ;;
  *) exec bazel "${STARTUP[@]}" "$COMMAND" "$@" ;;
esac
