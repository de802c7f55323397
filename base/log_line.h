// SPDX-License-Identifier: Apache-2.0
//
// A log line on its way to stderr: its limit and its shape, as text and as
// JSON. docs/operations.md#log shows both.

#ifndef QGEMM_BASE_LOG_LINE_H_
#define QGEMM_BASE_LOG_LINE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/log.h"
#include "base/mutex.h"

namespace qgemm {

// Bytes of a text field, and of a plain line, beyond which they are cut.
constexpr size_t kMaxFieldBytes = 512;
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

// A rate that may be exceeded by a burst, refilled at the rate.
struct LineRate {
  double lines_per_second = 0;
  double burst = 0;
};

// 100 lines a second of some 300 bytes are 2.6 GB a day.
struct LogLimits {
  LineRate name = {20, 200};
  LineRate total = {100, 1000};
  size_t max_names = 512;  // further ones share a limit
};

// Token buckets. The first line of a name in a second is never refused for the
// total, so that floods of some names hide no other. Thread-safe.
class LogLimiter {
 public:
  struct Verdict {
    bool admitted = false;
    int64_t suppressed = 0;  // lines of the name since its last admitted one
  };
  struct Suppressed {
    std::string name;
    int64_t lines = 0;
  };

  explicit LogLimiter(const LogLimits& limits = {}) : limits_(limits) {}

  // A line of `name` at `now`, which must not fall.
  Verdict Admit(absl::string_view name, absl::Time now);

  // Names with suppressed lines of which the last is `quiet` ago or longer.
  // Their counts begin anew.
  std::vector<Suppressed> TakeSuppressed(absl::Time now, absl::Duration quiet);

 private:
  class Bucket {
   public:
    void Refill(const LineRate& rate, absl::Time now);
    bool has_line() const { return lines_ >= 1; }
    void TakeLine();

   private:
    double lines_ = 0;
    absl::Time refilled_ = absl::InfinitePast();
  };

  struct Name {
    Bucket bucket;
    absl::Time last_admitted = absl::InfinitePast();
    absl::Time last_refused = absl::InfinitePast();
    int64_t suppressed = 0;
  };

  Name& Find(absl::string_view name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const LogLimits limits_;
  Mutex mutex_;
  Bucket total_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Name, std::less<>> names_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace qgemm

#endif  // QGEMM_BASE_LOG_LINE_H_
