// SPDX-License-Identifier: Apache-2.0
//
// Asks the limiter, formats, and writes lines to stderr.

#include "base/log.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/clock.h"
#include "base/log_line.h"

namespace qgemm {
namespace {

std::atomic<LogFormat> format{LogFormat::kText};

// Never destroyed: threads may log until the process has gone.
LogLimiter& Limiter() {
  static LogLimiter* const limiter = new LogLimiter;
  return *limiter;
}

LogLimiter::Verdict Admit(LogSeverity severity, absl::string_view name) {
  if (severity == LogSeverity::kFatal) return {true, 0};
  return Limiter().Admit(name, SteadyClock().Now());
}

const char* BaseName(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash == nullptr ? path : slash + 1;
}

LogRecord MakeRecord(LogSeverity severity, const char* file, int line) {
  LogRecord record;
  record.severity = severity;
  record.time = absl::Now();
  record.file = BaseName(file);
  record.line = line;
  return record;
}

void Write(const LogRecord& record) {
  const std::string text =
      (format.load(std::memory_order_relaxed) == LogFormat::kJson
           ? FormatJson(record)
           : FormatText(record)) +
      "\n";
  // Nothing sensible is left to do if stderr cannot be written.
  [[maybe_unused]] const ssize_t written =
      write(STDERR_FILENO, text.data(), text.size());
  if (record.severity == LogSeverity::kFatal) std::abort();
}

}  // namespace

void SetLogFormat(LogFormat new_format) { format = new_format; }

void LogSuppressedLines(absl::Duration quiet) {
  for (const LogLimiter::Suppressed& suppressed :
       Limiter().TakeSuppressed(SteadyClock().Now(), quiet)) {
    LogRecord record = MakeRecord(LogSeverity::kWarning, __FILE__, __LINE__);
    record.event = "lines_suppressed";
    record.fields = {{"name", suppressed.name}, {"lines", suppressed.lines}};
    Write(record);
  }
}

LogLine::LogLine(LogSeverity severity, const char* file, int line)
    : severity_(severity), file_(file), line_(line) {}

LogLine::~LogLine() {
  const LogLimiter::Verdict verdict =
      Admit(severity_, absl::StrCat(BaseName(file_), ":", line_));
  if (!verdict.admitted) return;
  LogRecord record = MakeRecord(severity_, file_, line_);
  record.message = stream_.str();
  record.suppressed = verdict.suppressed;
  Write(record);
}

LogEvent::LogEvent(LogSeverity severity, const char* file, int line,
                   absl::string_view name, absl::string_view kind) {
  const LogLimiter::Verdict verdict =
      kind.empty() ? Admit(severity, name)
                   : Admit(severity, absl::StrCat(name, " ", kind));
  if (!verdict.admitted) return;
  record_ = std::make_unique<LogRecord>(MakeRecord(severity, file, line));
  record_->event = std::string(name);
  record_->suppressed = verdict.suppressed;
}

LogEvent::~LogEvent() {
  if (record_ != nullptr) Write(*record_);
}

LogEvent& LogEvent::With(absl::string_view field, absl::string_view value) {
  if (record_ != nullptr) {
    record_->fields.push_back({std::string(field), std::string(value)});
  }
  return *this;
}

LogEvent& LogEvent::With(absl::string_view field, absl::Duration value) {
  if (record_ != nullptr) {
    record_->fields.push_back({std::string(field), value});
  }
  return *this;
}

LogEvent& LogEvent::WithBool(absl::string_view field, bool value) {
  if (record_ != nullptr) {
    record_->fields.push_back({std::string(field), value});
  }
  return *this;
}

LogEvent& LogEvent::WithDouble(absl::string_view field, double value) {
  if (record_ != nullptr) {
    record_->fields.push_back({std::string(field), value});
  }
  return *this;
}

LogEvent& LogEvent::WithInt(absl::string_view field, long long value) {
  if (record_ != nullptr) {
    record_->fields.push_back({std::string(field), int64_t{value}});
  }
  return *this;
}

}  // namespace qgemm
