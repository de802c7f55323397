// SPDX-License-Identifier: Apache-2.0

#include "loadtest/host.h"

#include <sys/utsname.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/version.h"
#include "loadtest/report/report_formats.h"

namespace qgemm::loadtest {
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

constexpr double kNanosecondsAMicrosecond = 1000;

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

std::string HgrmOf(const LoadtestReport& report) {
  const RunResult* const run = report.headline_run();
  return FormatHgrm(run == nullptr ? Histogram() : run->latency_ns(),
                    kNanosecondsAMicrosecond);
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

absl::StatusOr<std::string> ReadWholeFile(const std::string& path) {
  const File file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (file == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("cannot open ", path, ": ", std::strerror(errno)));
  }
  std::string text;
  char buffer[1 << 16];
  while (const size_t read =
             std::fread(buffer, 1, sizeof(buffer), file.get())) {
    text.append(buffer, read);
  }
  if (std::ferror(file.get()) == 0) return text;
  return absl::UnavailableError(
      absl::StrCat("cannot read ", path, ": ", std::strerror(errno)));
}

absl::Status WriteWholeFile(const std::string& path, absl::string_view text) {
  File file(std::fopen(path.c_str(), "wb"), std::fclose);
  bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(),
                                                file.get()) == text.size();
  // A full disk may show only when the last bytes are handed over.
  if (file != nullptr) written = std::fclose(file.release()) == 0 && written;
  if (written) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("cannot write ", path, ": ", std::strerror(errno)));
}

absl::Status WriteReportFiles(const LoadtestReport& report,
                              const OutputOptions& output) {
  absl::Status first;
  const auto write = [&](absl::string_view flag, const std::string& path,
                         const std::string& text) {
    const absl::Status status = WriteWholeFile(path, text);
    first.Update(absl::Status(
        status.code(), absl::StrCat("--", flag, ": ", status.message())));
  };
  if (!output.json.empty()) write("json", output.json, FormatJson(report));
  if (!output.hgrm.empty()) write("hgrm", output.hgrm, HgrmOf(report));
  return first;
}

}  // namespace qgemm::loadtest
