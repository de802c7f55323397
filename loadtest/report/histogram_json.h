// SPDX-License-Identifier: Apache-2.0
//
// Histograms as JSON: a summary for people, and buckets that a histogram is
// made of again. The report around them is in report_json.h.

#ifndef QGEMM_LOADTEST_REPORT_HISTOGRAM_JSON_H_
#define QGEMM_LOADTEST_REPORT_HISTOGRAM_JSON_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/histogram.h"

namespace qgemm {

// Keeps the order in which fields are added.
using ReportJson = nlohmann::ordered_json;

// The largest count in a report: the largest whole number up to which JSON
// readers that know only doubles are exact.
inline constexpr int64_t kMaxJsonCount = int64_t{1} << 53;

// {"count", "min", "mean", "p50", "p90", "p99", "p99.9", "p99.99", "max"},
// values divided by `unit`.
ReportJson SummaryJson(const Histogram& histogram, double unit);

// {"min", "max", "sum", "buckets": [[lowest, highest, count], …]}, ascending.
ReportJson HistogramJson(const Histogram& histogram);

// The histogram that HistogramJson wrote. Exact: count, buckets, minimum,
// maximum, and so every percentile; the mean to half of one (a nanosecond's
// half, for latencies), as values within a bucket are not kept.
// Errors: INVALID_ARGUMENT that names the field, beginning with `path`.
absl::StatusOr<Histogram> HistogramFromJson(const ReportJson& json,
                                            absl::string_view path);

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_REPORT_HISTOGRAM_JSON_H_
