// SPDX-License-Identifier: Apache-2.0

#include "loadtest/own_environment.h"

#include <sys/utsname.h>

#include <fstream>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/version.h"

namespace qgemm {
namespace {

std::string CpuModel() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 1));
    if (!absl::StartsWith(parts.first, "model name")) continue;
    return std::string(absl::StripAsciiWhitespace(parts.second));
  }
  return "";
}

}  // namespace

LoadtestEnvironment OwnEnvironment(const LoadtestOptions& options) {
  LoadtestEnvironment environment;
  environment.version = kVersion;
  environment.client_cpus =
      static_cast<int>(std::thread::hardware_concurrency());
  environment.client_cpu = CpuModel();
  environment.transport = std::string(Name(options.transport));
  utsname system;
  if (uname(&system) == 0) {
    environment.client_system =
        absl::StrCat(system.sysname, " ", system.release);
  }
  return environment;
}

}  // namespace qgemm
