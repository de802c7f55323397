// SPDX-License-Identifier: Apache-2.0
//
// Summary of a run against cuBLAS for few rows, the decode kernel's domain.

#ifndef QGEMM_BENCH_SPEEDUP_SUMMARY_H_
#define QGEMM_BENCH_SPEEDUP_SUMMARY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "bench/bench_report.h"

namespace qgemm {

// Cases of at most this many rows count.
inline constexpr int64_t kMaxSummaryRows = 64;

// Speed-ups of one format and dtype.
struct SpeedupSummary {
  std::string format;
  FloatType dtype = FloatType::kFloat16;
  int cases = 0;
  double geometric_mean = 0;
  double minimum = 0;
  BenchCase slowest;  // where the minimum is
};

// In the order in which formats and dtypes come up first. Cases without a
// figure of cuBLAS, or of more rows, do not count.
std::vector<SpeedupSummary> SummarizeSpeedups(
    absl::Span<const MeasuredCase> measured);

// A line a summary, under a headline; empty if there is none.
std::string FormatSpeedups(absl::Span<const SpeedupSummary> summaries);

}  // namespace qgemm

#endif  // QGEMM_BENCH_SPEEDUP_SUMMARY_H_
