#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Fuzzes what reads foreign bytes, with libFuzzer and AddressSanitizer: requests
# (against Protobuf's parser), uploads, messages of streams, tensor files, and
# HTTP/2 connections of a server in the same process, of which gRPC itself is
# not instrumented. A crash, a difference or a minute without an answer ends it
# with an error and leaves the input. tests/hostile/run.sh attacks the server's
# binary.
#
# Usage: tools/fuzz.sh [RUNS [TARGET ...]]    (default: 10000000 of each, and a
# hundredth of connections)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly RUNS="${1:-10000000}"
shift || true
readonly ALL=(
  //tests/rpc:payload_message_fuzz
  //tests/server/weights:upload_session_fuzz
  //tests/server/rpc:stream_messages_fuzz
  //tests/cli:tensor_files_fuzz
  //tests/end_to_end:connection_fuzz
)
targets=("$@")
[ "${#targets[@]}" -gt 0 ] || targets=("${ALL[@]}")

# A connection takes a thousand times as long as other inputs, and its first
# bytes alone are no call. Threads of its server allocate at any time: leaks are
# looked for at the end only.
flags_of() {
  if [[ "$1" == *:connection_fuzz ]]; then
    echo "-runs=$((RUNS / 100)) -len_control=0 -detect_leaks=0"
  else
    echo "-runs=$RUNS"
  fi
}

tools/setup.sh test
tools/bazel.sh build --config=fuzz "${targets[@]}"
bin="$(tools/bazel.sh info --config=fuzz bazel-bin)"
for target in "${targets[@]}"; do
  echo "== $target"
  path="${target#//}"
  # Protobuf says on standard error what it refuses; that is most inputs.
  read -r -a flags <<<"$(flags_of "$target")"
  "$bin/${path/://}" "${flags[@]}" -max_len=512 -timeout=60 \
    -print_final_stats=1 2>&1 |
    grep -v '^\[libprotobuf'
done
