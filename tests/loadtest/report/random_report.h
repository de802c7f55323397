// SPDX-License-Identifier: Apache-2.0
//
// Reports whose every field is random, for properties that hold of all.

#ifndef QGEMM_TESTS_CLIENT_LOADTEST_REPORT_RANDOM_REPORT_H_
#define QGEMM_TESTS_CLIENT_LOADTEST_REPORT_RANDOM_REPORT_H_

#include <cstdint>
#include <random>
#include <string>

#include "absl/time/time.h"
#include "base/histogram.h"
#include "loadtest/report/loadtest_report.h"

namespace qgemm {

class RandomReport {
 public:
  explicit RandomReport(uint32_t seed) : random_(seed) {}

  LoadtestReport Report();
  // Up to 200 values over twelve decades; sometimes none.
  Histogram Values();

 private:
  // From 0 to `limit`.
  int64_t Whole(int64_t limit);
  int64_t Count() { return Whole(int64_t{1} << 53); }
  int Length() { return static_cast<int>(Whole(3)); }
  double Real();
  std::string Text();
  // Of whole nanoseconds, within 13 days.
  absl::Duration Time() { return absl::Nanoseconds(Whole(int64_t{1} << 50)); }
  absl::StatusCode Error();

  LoadtestEnvironment Environment();
  WeightsSummary Weights();
  SeriesPoint Point();
  ServerTimes Server();
  void FillCounts(RunResult* run);
  RunResult Run();
  Yardstick Echo();
  VerifyReport Verify();

  std::mt19937_64 random_;
};

}  // namespace qgemm

#endif  // QGEMM_TESTS_CLIENT_LOADTEST_REPORT_RANDOM_REPORT_H_
