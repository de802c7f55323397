// SPDX-License-Identifier: Apache-2.0
//
// Reads /proc/cpuinfo.

#include "kernels/cpu/processor_name.h"

#include <fstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"

namespace qgemm {

std::string ProcessorName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!absl::StartsWith(line, "model name")) continue;
    const size_t colon = line.find(':');
    if (colon == std::string::npos) break;
    return std::string(absl::StripAsciiWhitespace(line.substr(colon + 1)));
  }
  return "unknown processor";
}

}  // namespace qgemm
