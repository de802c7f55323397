// SPDX-License-Identifier: Apache-2.0
//
// A libFuzzer target: no bytes make ReadPayloadMessage differ from Protobuf's
// parser. The first byte says how the rest is cut. tools/fuzz.sh runs it.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tests/rpc/payload_differential.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::vector<size_t> lengths(data[0] / 16, data[0] % 16);
  const std::string difference = qgemm::DifferenceOfParsers(
      absl::string_view(reinterpret_cast<const char*>(data + 1), size - 1),
      lengths);
  if (difference.empty()) return 0;
  std::fprintf(stderr, "%s\n", difference.c_str());
  std::abort();
}
