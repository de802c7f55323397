#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Fuzzes the hand-written reader of requests against Protobuf's parser with
# libFuzzer and AddressSanitizer (tests/rpc/payload_message_fuzz.cc).
# A difference or a crash ends it with an error and leaves the input.
#
# Usage: tools/fuzz.sh [RUNS]    (default: 10000000)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly RUNS="${1:-10000000}"
readonly SOURCES=(
  tests/rpc/payload_message_fuzz.cc
  tests/rpc/payload_differential.cc
  rpc/payload_message.cc
)

tools/setup.sh test
build="$(mktemp -d)"
trap 'rm -rf "$build"' EXIT
protoc --proto_path=proto "--cpp_out=$build" qgemm/v1/qgemm.proto
clang++-14 -std=c++17 -O1 -g -fsanitize=fuzzer,address -I. "-I$build" \
  "${SOURCES[@]}" "$build/qgemm/v1/qgemm.pb.cc" -o "$build/fuzz" \
  -lgrpc++ -lgrpc -lgpr -lprotobuf -labsl_status -labsl_strings \
  -labsl_throw_delegate -labsl_raw_logging_internal -labsl_cord \
  -labsl_cord_internal -labsl_cordz_functions -labsl_cordz_info \
  -labsl_cordz_handle -lpthread
mkdir "$build/corpus"
# Protobuf says on standard error what it refuses; that is most of the inputs.
"$build/fuzz" "-runs=$RUNS" -max_len=512 -print_final_stats=1 "$build/corpus" \
  2>&1 | grep -v '^\[libprotobuf'
