// SPDX-License-Identifier: Apache-2.0
//
// GRPC_VERBOSITY decides which lines gRPC makes at all.

#include "rpc/library_log.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>

#include <string>

#include "base/log.h"

namespace qgemm {
namespace {

LogSeverity SeverityOf(gpr_log_severity severity) {
  return severity == GPR_LOG_SEVERITY_ERROR ? LogSeverity::kError
                                            : LogSeverity::kInfo;
}

// A fatal line stays the library's to act upon.
LogSeverity SeverityOf(google::protobuf::LogLevel level) {
  switch (level) {
    case google::protobuf::LOGLEVEL_INFO:
      return LogSeverity::kInfo;
    case google::protobuf::LOGLEVEL_WARNING:
      return LogSeverity::kWarning;
    default:
      return LogSeverity::kError;
  }
}

void LogGrpc(gpr_log_func_args* line) {
  LogEvent(SeverityOf(line->severity), line->file, line->line, "grpc")
      .With("text", line->message);
}

void LogProtobuf(google::protobuf::LogLevel level, const char* file, int line,
                 const std::string& message) {
  LogEvent(SeverityOf(level), file, line, "protobuf").With("text", message);
}

}  // namespace

void LogLibraries() {
  gpr_set_log_function(LogGrpc);
  google::protobuf::SetLogHandler(LogProtobuf);
}

}  // namespace qgemm
