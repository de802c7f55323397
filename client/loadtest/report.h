// SPDX-License-Identifier: Apache-2.0
//
// What a load test prints: a table for people, JSON for programs. The JSON's
// fields are documented in client/loadtest/README.md; a change that breaks a
// reader raises kReportSchemaVersion.

#ifndef QGEMM_CLIENT_LOADTEST_REPORT_H_
#define QGEMM_CLIENT_LOADTEST_REPORT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/load.h"
#include "client/loadtest/answer_checker.h"
#include "client/loadtest/closed_loop_runner.h"
#include "client/loadtest/options.h"
#include "client/server_description.h"

namespace qgemm {

inline constexpr int kReportSchemaVersion = 1;

struct LoadtestReport {
  LoadtestOptions options;
  absl::Time started_at;
  int client_cpus = 0;  // hardware threads of the client's machine
  ServerDescription server;
  WeightsDescription weights;
  LoopResult loop;
  VerifyReport verify;
  // Of removing synthetic weights.
  absl::Status cleanup;

  double requests_per_second() const;
  double rows_per_second() const;
  // No error, no wrong answer, at least one measured answer, and synthetic
  // weights removed.
  bool passed() const;
};

std::string FormatTable(const LoadtestReport& report);
std::string FormatJson(const LoadtestReport& report);

}  // namespace qgemm

#endif  // QGEMM_CLIENT_LOADTEST_REPORT_H_
