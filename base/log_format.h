// SPDX-License-Identifier: Apache-2.0
//
// The shape of a log line, as text and as JSON. docs/operations.md#log shows
// both.

#ifndef QGEMM_BASE_LOG_FORMAT_H_
#define QGEMM_BASE_LOG_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/log.h"

namespace qgemm {

// Bytes of a text field, and of a plain line, beyond which they are cut.
constexpr size_t kMaxFieldBytes = 256;
constexpr size_t kMaxMessageBytes = 2048;

struct LogField {
  std::string name;
  std::variant<std::string, int64_t, double, bool, absl::Duration> value;
};

// One line before it is formatted.
struct LogRecord {
  LogSeverity severity = LogSeverity::kInfo;
  absl::Time time;
  absl::string_view file;  // without folders
  int line = 0;
  std::string event;    // empty: a plain line
  std::string message;  // of a plain line
  std::vector<LogField> fields;
  int64_t suppressed = 0;  // lines of its limit since the one before
};

// Lines without their newline; text of any origin is escaped and cut.
std::string FormatText(const LogRecord& record);
// UTF-8 beyond ASCII is escaped too; bytes that are no UTF-8 become U+FFFD.
std::string FormatJson(const LogRecord& record);

}  // namespace qgemm

#endif  // QGEMM_BASE_LOG_FORMAT_H_
