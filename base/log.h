// SPDX-License-Identifier: Apache-2.0
//
// Leveled logging to stderr, one line a statement. Plain lines:
//   LOG(INFO) << "listening on " << address;
// Events, which have a name and fields:
//   EVENT(INFO, "weights_loaded").With("id", id).With("bytes", bytes);
// Thread-safe: a line is written by one write(2) call. Text is escaped and cut
// and lines beyond a rate are counted instead (log_line.h).
// A line costs microseconds: none belongs to every request. The format and the
// limiter are those of the process, as stderr is.

#ifndef QGEMM_BASE_LOG_H_
#define QGEMM_BASE_LOG_H_

#include <memory>
#include <sstream>
#include <type_traits>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace qgemm {

enum class LogSeverity { kInfo, kWarning, kError, kFatal };

// Shape of a line: "I 2026-... file.cc:12] name field=value", or a JSON object.
enum class LogFormat { kText, kJson };

// Sets the format of the lines that follow. The default is text.
void SetLogFormat(LogFormat format);

// Writes the number of lines that were suppressed, for each name that had none
// for `quiet`. For about each second, and with no such time for the end of a
// program.
void LogSuppressedLines(absl::Duration quiet = absl::Seconds(2));

// Collects one line and writes it when it is destroyed; a fatal one then
// aborts the process. Its limit is that of its place in the source.
class LogLine {
 public:
  LogLine(LogSeverity severity, const char* file, int line);
  LogLine(const LogLine&) = delete;
  LogLine& operator=(const LogLine&) = delete;
  ~LogLine();

  std::ostream& stream() { return stream_; }

 private:
  const LogSeverity severity_;
  const char* const file_;
  const int line_;
  std::ostringstream stream_;
};

struct LogRecord;

// Collects one event and writes it when it is destroyed, unless its limit is
// reached; its fields cost nothing then.
class LogEvent {
 public:
  // Events of one `name` and `kind` share a limit. Both must come from a small
  // set, never from a client. The kind is not part of the line. `file` must
  // outlive the event.
  LogEvent(LogSeverity severity, const char* file, int line,
           absl::string_view name, absl::string_view kind = "");
  LogEvent(const LogEvent&) = delete;
  LogEvent& operator=(const LogEvent&) = delete;
  ~LogEvent();

  // False beyond the limit: fields that are costly to find are not needed then.
  bool is_written() const { return record_ != nullptr; }

  // Adds a field. Names are ours: lower case, none twice, none of time,
  // severity, file, line, event, message and suppressed.
  LogEvent& With(absl::string_view field, absl::string_view value);
  // "field=1.5s" in text, "field_seconds": 1.5 in JSON.
  LogEvent& With(absl::string_view field, absl::Duration value);
  template <typename Number,
            std::enable_if_t<std::is_arithmetic_v<Number>, int> = 0>
  LogEvent& With(absl::string_view field, Number value) {
    if constexpr (std::is_same_v<Number, bool>) {
      return WithBool(field, value);
    } else if constexpr (std::is_floating_point_v<Number>) {
      return WithDouble(field, value);
    } else {
      return WithInt(field, static_cast<long long>(value));
    }
  }

 private:
  LogEvent& WithBool(absl::string_view field, bool value);
  LogEvent& WithDouble(absl::string_view field, double value);
  LogEvent& WithInt(absl::string_view field, long long value);

  std::unique_ptr<LogRecord> record_;  // null: beyond the limit
};

// Turns the streamed expression of a failed CHECK into a void one.
struct LogVoidify {
  void operator&(std::ostream&) const {}
};

}  // namespace qgemm

#define QGEMM_LOG_INFO ::qgemm::LogSeverity::kInfo
#define QGEMM_LOG_WARNING ::qgemm::LogSeverity::kWarning
#define QGEMM_LOG_ERROR ::qgemm::LogSeverity::kError
#define QGEMM_LOG_FATAL ::qgemm::LogSeverity::kFatal

#define LOG(severity) \
  ::qgemm::LogLine(QGEMM_LOG_##severity, __FILE__, __LINE__).stream()

// EVENT(INFO, "name") or EVENT(INFO, "name", kind).
#define EVENT(severity, ...) \
  ::qgemm::LogEvent(QGEMM_LOG_##severity, __FILE__, __LINE__, __VA_ARGS__)

#endif  // QGEMM_BASE_LOG_H_
