// SPDX-License-Identifier: Apache-2.0
//
// Writes the files that a load test was asked for.

#ifndef QGEMM_LOADTEST_REPORT_FILES_H_
#define QGEMM_LOADTEST_REPORT_FILES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "loadtest/options.h"
#include "loadtest/report/loadtest_report.h"

namespace qgemm {

// Every file whose path is not empty; goes on after a failure. The first
// error, which names the flag and the path.
absl::Status WriteReportFiles(const LoadtestReport& report,
                              const OutputOptions& output);

// Errors: NOT_FOUND, UNAVAILABLE; name the path.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path);

// Replaces the file. Errors: UNAVAILABLE (no such folder, a full disk).
absl::Status WriteWholeFile(const std::string& path, absl::string_view text);

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_REPORT_FILES_H_
