// SPDX-License-Identifier: Apache-2.0
//
// Files and facts of the machine that the load comes from.

#ifndef QGEMM_LOADTEST_HOST_H_
#define QGEMM_LOADTEST_HOST_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "loadtest/options.h"
#include "loadtest/report/loadtest_report.h"

namespace qgemm::loadtest {

// All but the server; facts that the system does not tell are left empty.
LoadtestEnvironment OwnEnvironment(const LoadtestOptions& options);

// Errors: NOT_FOUND, UNAVAILABLE; name the path.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path);

// Replaces the file. Errors: UNAVAILABLE (no such folder, a full disk).
absl::Status WriteWholeFile(const std::string& path, absl::string_view text);

// Writes every file whose path is not empty, also after a failure. Returns the
// first error, which names the flag and the path.
absl::Status WriteReportFiles(const LoadtestReport& report,
                              const OutputOptions& output);

}  // namespace qgemm::loadtest

#endif  // QGEMM_LOADTEST_HOST_H_
