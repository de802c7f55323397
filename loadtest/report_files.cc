// SPDX-License-Identifier: Apache-2.0

#include "loadtest/report_files.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>

#include "absl/strings/str_cat.h"
#include "loadtest/report/hgrm.h"
#include "loadtest/report/report_json.h"

namespace qgemm {
namespace {

constexpr double kNanosecondsAMicrosecond = 1000;

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

std::string HgrmOf(const LoadtestReport& report) {
  const RunResult* const run = report.headline_run();
  return FormatHgrm(run == nullptr ? Histogram() : run->latency_ns(),
                    kNanosecondsAMicrosecond);
}

}  // namespace

absl::Status WriteReportFiles(const LoadtestReport& report,
                              const OutputOptions& output) {
  const struct {
    absl::string_view flag;
    const std::string& path;
    std::function<std::string(const LoadtestReport&)> format;
  } files[] = {{"json", output.json, FormatJson},
               {"hgrm", output.hgrm, HgrmOf}};
  absl::Status first;
  for (const auto& file : files) {
    if (file.path.empty()) continue;
    const absl::Status written = WriteWholeFile(file.path, file.format(report));
    if (written.ok() || !first.ok()) continue;
    first = absl::Status(
        written.code(), absl::StrCat("--", file.flag, ": ", written.message()));
  }
  return first;
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

}  // namespace qgemm
