#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Fuzzes what reads foreign bytes, with libFuzzer and AddressSanitizer: requests
# (against Protobuf's parser), uploads, messages of streams, programs (against a
# second check, the reference and fp64), tensor files, and HTTP/2 connections of
# a server in the same process, of which gRPC itself is not instrumented. A
# crash, a difference or a minute without an answer ends it with an error and
# leaves the input. tests/hostile/run.sh attacks the server's binary.
#
# Usage: tools/fuzz.sh [RUNS [TARGET ...]]    (default: 10000000 of each, and a
# hundredth of programs and of connections)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly RUNS="${1:-10000000}"
shift || true
readonly ALL=(
  //tests/rpc:payload_message_fuzz
  //tests/server/weights:upload_session_fuzz
  //tests/server/access:access_table_fuzz
  //tests/server/rpc:stream_messages_fuzz
  //tests/server/rpc:program_fuzz
  //tests/cli:tensor_files_fuzz
  //tests/end_to_end:connection_fuzz
)
targets=("$@")
[ "${#targets[@]}" -gt 0 ] || targets=("${ALL[@]}")

# A connection takes a thousand times as long as other inputs, and its first
# bytes alone are no call. Threads of its server allocate at any time: leaks are
# looked for at the end only. A program is drawn, mutated and run, which takes
# many bytes from the first input on; whatever it says of widths and counts,
# nothing of that size is allocated.
flags_of() {
  case "$1" in
    *:connection_fuzz)
      echo "-runs=$((RUNS / 100)) -len_control=0 -detect_leaks=0"
      ;;
    *:program_fuzz)
      echo "-runs=$((RUNS / 100)) -len_control=0 -malloc_limit_mb=16"
      ;;
    *) echo "-runs=$RUNS" ;;
  esac
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
