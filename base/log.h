// SPDX-License-Identifier: Apache-2.0
//
// Leveled logging to stderr, one line a statement:
//   LOG(INFO) << "listening on " << address;
// Thread-safe: a line is written by one write(2) call.

#ifndef QGEMM_BASE_LOG_H_
#define QGEMM_BASE_LOG_H_

#include <sstream>

namespace qgemm {

enum class LogSeverity { kInfo, kWarning, kError, kFatal };

// Collects one line and writes it when it is destroyed; a fatal one then
// aborts the process.
class LogLine {
 public:
  LogLine(LogSeverity severity, const char* file, int line);
  LogLine(const LogLine&) = delete;
  LogLine& operator=(const LogLine&) = delete;
  ~LogLine();

  std::ostream& stream() { return stream_; }

 private:
  const LogSeverity severity_;
  std::ostringstream stream_;
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

#endif  // QGEMM_BASE_LOG_H_
