// SPDX-License-Identifier: Apache-2.0
//
// FormatHgrm: the percentile iteration and the columns.

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "loadtest/report/report_formats.h"

namespace qgemm::loadtest {
namespace {

constexpr double kTicksAHalving = 5;
// Histogram's values below this have a bucket each; a bucket of HdrHistogram
// is an octave of sub-buckets above it.
constexpr int64_t kSubBuckets = 2048;

// The percentage after `percent`, which is below 100.
double NextLevel(double percent) {
  const double halvings = std::floor(std::log2(100 / (100 - percent)));
  return percent + 100 / (kTicksAHalving * std::exp2(halvings + 1));
}

int OctavesUpTo(int64_t max) {
  int octaves = 1;
  while (max / kSubBuckets >> (octaves - 1) > 0) ++octaves;
  return octaves;
}

std::string Row(double value, double percent, int64_t count_to_value) {
  return absl::StrFormat("%12.3f %2.12f %10d %14.2f\n", value, percent / 100,
                         count_to_value, 1 / (1 - percent / 100));
}

std::string Rows(const Histogram& histogram, double unit) {
  std::string text;
  double level = 0;
  int64_t seen = 0;
  const double count = static_cast<double>(histogram.count());
  histogram.ForEachBucket([&](const Histogram::Bucket& bucket) {
    seen += bucket.count;
    const double value =
        static_cast<double>(std::min(bucket.highest, histogram.max())) / unit;
    while (100 * static_cast<double>(seen) / count >= level) {
      absl::StrAppend(&text, Row(value, level, seen));
      level = NextLevel(level);
      // All are counted: one line for the largest, then that of 100 %.
      if (seen == histogram.count()) break;
    }
  });
  if (histogram.empty()) return text;
  absl::StrAppendFormat(&text, "%12.3f %2.12f %10d\n",
                        static_cast<double>(histogram.max()) / unit, 1.0,
                        histogram.count());
  return text;
}

std::string Footer(const Histogram& histogram, double unit) {
  return absl::StrFormat(
      "#[Mean    = %12.3f, StdDeviation   = %12.3f]\n"
      "#[Max     = %12.3f, Total count    = %12d]\n"
      "#[Buckets = %12d, SubBuckets     = %12d]\n",
      histogram.mean() / unit, histogram.standard_deviation() / unit,
      static_cast<double>(histogram.max()) / unit, histogram.count(),
      OctavesUpTo(histogram.max()), kSubBuckets);
}

}  // namespace

std::string FormatHgrm(const Histogram& histogram, double unit) {
  return absl::StrCat(
      absl::StrFormat("%12s %14s %10s %14s\n\n", "Value", "Percentile",
                      "TotalCount", "1/(1-Percentile)"),
      Rows(histogram, unit), Footer(histogram, unit));
}

}  // namespace qgemm::loadtest
