// SPDX-License-Identifier: Apache-2.0
//
// Means by logarithms.

#include "bench/speedup_summary.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"

namespace qgemm {
namespace {

// While cases are added, geometric_mean holds the sum of logarithms.
void Add(const MeasuredCase& measured, SpeedupSummary& summary) {
  const double speedup = SpeedupVsCublas(measured.result);
  summary.geometric_mean += std::log(speedup);
  if (summary.cases++ == 0 || speedup < summary.minimum) {
    summary.minimum = speedup;
    summary.slowest = measured.bench_case;
  }
}

SpeedupSummary& SummaryOf(const BenchCase& one,
                          std::vector<SpeedupSummary>& summaries) {
  const auto found = std::find_if(
      summaries.begin(), summaries.end(), [&one](const SpeedupSummary& known) {
        return known.format == one.format && known.dtype == one.dtype;
      });
  if (found != summaries.end()) return *found;
  SpeedupSummary fresh;
  fresh.format = one.format;
  fresh.dtype = one.dtype;
  summaries.push_back(fresh);
  return summaries.back();
}

}  // namespace

std::vector<SpeedupSummary> SummarizeSpeedups(
    absl::Span<const MeasuredCase> measured) {
  std::vector<SpeedupSummary> summaries;
  for (const MeasuredCase& one : measured) {
    if (!one.result.cublas.has_value()) continue;
    if (one.bench_case.m > kMaxSummaryRows) continue;
    Add(one, SummaryOf(one.bench_case, summaries));
  }
  for (SpeedupSummary& summary : summaries) {
    summary.geometric_mean = std::exp(summary.geometric_mean / summary.cases);
  }
  return summaries;
}

std::string FormatSpeedups(absl::Span<const SpeedupSummary> summaries) {
  if (summaries.empty()) return "";
  std::string text = absl::StrFormat(
      "times cuBLAS, M <= %d:\n"
      "%-8s %-5s %5s %8s %8s  %s\n",
      kMaxSummaryRows, "format", "dtype", "cases", "geomean", "minimum", "at");
  for (const SpeedupSummary& summary : summaries) {
    const BenchCase& slowest = summary.slowest;
    absl::StrAppendFormat(&text, "%-8s %-5s %5d %8.2f %8.2f  %dx%d M = %d\n",
                          summary.format, Name(summary.dtype), summary.cases,
                          summary.geometric_mean, summary.minimum,
                          slowest.shape.k, slowest.shape.n, slowest.m);
  }
  return text;
}

}  // namespace qgemm
