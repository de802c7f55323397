#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Fuzzes what reads foreign bytes, with libFuzzer and AddressSanitizer: requests
# (against Protobuf's parser), uploads, messages of streams, tensor files. A
# crash or a difference ends it with an error and leaves the input. HTTP/2
# frames are mutated against a live server instead: tests/hostile/run.sh.
#
# Usage: tools/fuzz.sh [RUNS [TARGET ...]]    (default: 10000000 of each)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly RUNS="${1:-10000000}"
shift || true
readonly ALL=(
  //tests/rpc:payload_message_fuzz
  //tests/server/weights:upload_session_fuzz
  //tests/server/rpc:stream_messages_fuzz
  //tests/cli:tensor_files_fuzz
)
targets=("$@")
[ "${#targets[@]}" -gt 0 ] || targets=("${ALL[@]}")

tools/setup.sh test
tools/bazel.sh build --config=fuzz "${targets[@]}"
bin="$(tools/bazel.sh info --config=fuzz bazel-bin)"
for target in "${targets[@]}"; do
  echo "== $target"
  path="${target#//}"
  # Protobuf says on standard error what it refuses; that is most inputs.
  "$bin/${path/://}" "-runs=$RUNS" -max_len=512 -print_final_stats=1 2>&1 |
    grep -v '^\[libprotobuf'
done
