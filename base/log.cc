// SPDX-License-Identifier: Apache-2.0
//
// Formats log lines and writes them to stderr.

#include "base/log.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace qgemm {
namespace {

char SeverityLetter(LogSeverity severity) {
  switch (severity) {
    case LogSeverity::kInfo:
      return 'I';
    case LogSeverity::kWarning:
      return 'W';
    case LogSeverity::kError:
      return 'E';
    case LogSeverity::kFatal:
      return 'F';
  }
  return '?';
}

const char* BaseName(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash == nullptr ? path : slash + 1;
}

}  // namespace

LogLine::LogLine(LogSeverity severity, const char* file, int line)
    : severity_(severity) {
  stream_ << SeverityLetter(severity)
          << absl::FormatTime(" %Y-%m-%dT%H:%M:%E3SZ ", absl::Now(),
                              absl::UTCTimeZone())
          << BaseName(file) << ':' << line << "] ";
}

LogLine::~LogLine() {
  stream_ << '\n';
  const std::string text = stream_.str();
  // Nothing sensible is left to do if stderr cannot be written.
  [[maybe_unused]] const ssize_t written =
      write(STDERR_FILENO, text.data(), text.size());
  if (severity_ == LogSeverity::kFatal) std::abort();
}

}  // namespace qgemm
