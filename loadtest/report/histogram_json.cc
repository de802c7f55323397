// SPDX-License-Identifier: Apache-2.0
//
// Writing and checked reading of buckets.

#include "loadtest/report/histogram_json.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/status_macros.h"

namespace qgemm {
namespace {

using Bucket = Histogram::Bucket;

struct NamedPercentile {
  double percent;
  const char* name;
};
constexpr NamedPercentile kPercentiles[] = {
    {50, "p50"}, {90, "p90"}, {99, "p99"}, {99.9, "p99.9"}, {99.99, "p99.99"}};

absl::Status Wrong(absl::string_view path, absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", message));
}

// Absent unless `json` is a whole number from 0 to INT64_MAX.
std::optional<int64_t> WholeNumber(const ReportJson& json) {
  if (!json.is_number_integer()) return std::nullopt;
  if (json.is_number_unsigned() &&
      json.get<uint64_t>() >
          static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return std::nullopt;
  }
  const int64_t value = json.get<int64_t>();
  return value < 0 ? std::nullopt : std::optional<int64_t>(value);
}

absl::StatusOr<const ReportJson*> Field(const ReportJson& json,
                                        const char* name,
                                        absl::string_view path) {
  if (!json.is_object()) {
    return Wrong(path,
                 absl::StrCat("must be a histogram, is ", json.type_name()));
  }
  const auto found = json.find(name);
  if (found == json.end()) {
    return Wrong(absl::StrCat(path, ".", name), "is missing");
  }
  return &*found;
}

absl::StatusOr<int64_t> WholeField(const ReportJson& json, const char* name,
                                   absl::string_view path) {
  ASSIGN_OR_RETURN(const ReportJson* field, Field(json, name, path));
  const std::optional<int64_t> value = WholeNumber(*field);
  if (value.has_value()) return *value;
  return Wrong(absl::StrCat(path, ".", name),
               "must be a whole number, 0 or more");
}

absl::StatusOr<Bucket> BucketFromJson(const ReportJson& json,
                                      absl::string_view path) {
  if (json.is_array() && json.size() == 3) {
    const std::optional<int64_t> lowest = WholeNumber(json[0]);
    const std::optional<int64_t> highest = WholeNumber(json[1]);
    const std::optional<int64_t> count = WholeNumber(json[2]);
    if (lowest && highest && count && *lowest <= *highest && *count >= 1 &&
        *count <= kMaxJsonCount) {
      return Bucket{*lowest, *highest, *count};
    }
  }
  return Wrong(path, absl::StrCat("must be [lowest, highest, count] of whole "
                                  "numbers, lowest 0 to highest, count 1 to ",
                                  kMaxJsonCount));
}

absl::StatusOr<std::vector<Bucket>> BucketsFromJson(const ReportJson& json,
                                                    absl::string_view path) {
  if (!json.is_array()) {
    return Wrong(path, absl::StrCat("must be an array, is ", json.type_name()));
  }
  std::vector<Bucket> buckets;
  int64_t count = 0;
  for (size_t i = 0; i < json.size(); ++i) {
    const std::string element = absl::StrCat(path, "[", i, "]");
    ASSIGN_OR_RETURN(const Bucket bucket, BucketFromJson(json[i], element));
    if (!buckets.empty() && bucket.lowest <= buckets.back().highest) {
      return Wrong(element, "is not above the bucket before it");
    }
    count += bucket.count;  // two at most 2^53: no overflow
    if (count > kMaxJsonCount) {
      return Wrong(path, absl::StrCat("counts are above ", kMaxJsonCount));
    }
    buckets.push_back(bucket);
  }
  return buckets;
}

// Exact figures of a histogram beside its buckets.
struct Extremes {
  int64_t min = 0;
  int64_t max = 0;
  double sum = 0;
};

absl::Status CheckExtremes(const Extremes& extremes,
                           absl::Span<const Bucket> buckets,
                           absl::string_view path) {
  if (buckets.empty()) return absl::OkStatus();
  const Bucket& first = buckets.front();
  const Bucket& last = buckets.back();
  if (extremes.min < first.lowest || extremes.min > first.highest) {
    return Wrong(absl::StrCat(path, ".min"),
                 absl::StrCat(extremes.min, " is not in the first bucket"));
  }
  if (extremes.max < std::max(last.lowest, extremes.min) ||
      extremes.max > last.highest) {
    return Wrong(absl::StrCat(path, ".max"),
                 absl::StrCat(extremes.max, " is not in the last bucket"));
  }
  return absl::OkStatus();
}

// Sums over all values if each was its bucket's lowest or highest.
struct SumBounds {
  double lowest = 0;
  double highest = 0;
};

SumBounds BoundsOf(absl::Span<const Bucket> buckets) {
  SumBounds bounds;
  for (const Bucket& bucket : buckets) {
    const double count = static_cast<double>(bucket.count);
    bounds.lowest += count * static_cast<double>(bucket.lowest);
    bounds.highest += count * static_cast<double>(bucket.highest);
  }
  return bounds;
}

// Records the extremes once each, and the rest where in their buckets the sum
// asks for: at the same share of each bucket's width.
Histogram Rebuild(std::vector<Bucket> buckets, const Extremes& extremes) {
  Histogram histogram;
  if (buckets.empty()) return histogram;
  histogram.Record(extremes.min);
  --buckets.front().count;
  if (buckets.size() > 1 || buckets.front().count > 0) {
    histogram.Record(extremes.max);
    --buckets.back().count;
  }
  for (Bucket& bucket : buckets) {
    bucket.lowest = std::max(bucket.lowest, extremes.min);
    bucket.highest = std::min(bucket.highest, extremes.max);
  }
  const SumBounds bounds = BoundsOf(buckets);
  const double width = bounds.highest - bounds.lowest;
  const double rest = extremes.sum - histogram.sum() - bounds.lowest;
  const double share = width > 0 ? std::clamp(rest / width, 0.0, 1.0) : 0;
  for (const Bucket& bucket : buckets) {
    const double span = static_cast<double>(bucket.highest - bucket.lowest);
    const int64_t above = std::llround(share * span);
    histogram.Record(std::min(bucket.lowest + above, bucket.highest),
                     bucket.count);
  }
  return histogram;
}

}  // namespace

ReportJson SummaryJson(const Histogram& histogram, double unit) {
  ReportJson json = {
      {"count", histogram.count()},
      {"min", static_cast<double>(histogram.min()) / unit},
      {"mean", histogram.mean() / unit},
  };
  for (const NamedPercentile& percentile : kPercentiles) {
    json[percentile.name] =
        static_cast<double>(histogram.Percentile(percentile.percent)) / unit;
  }
  json["max"] = static_cast<double>(histogram.max()) / unit;
  return json;
}

ReportJson HistogramJson(const Histogram& histogram) {
  ReportJson buckets = ReportJson::array();
  histogram.ForEachBucket([&](const Bucket& bucket) {
    buckets.push_back(
        ReportJson::array({bucket.lowest, bucket.highest, bucket.count}));
  });
  return {{"min", histogram.min()},
          {"max", histogram.max()},
          {"sum", histogram.sum()},
          {"buckets", std::move(buckets)}};
}

absl::StatusOr<Histogram> HistogramFromJson(const ReportJson& json,
                                            absl::string_view path) {
  Extremes extremes;
  ASSIGN_OR_RETURN(extremes.min, WholeField(json, "min", path));
  ASSIGN_OR_RETURN(extremes.max, WholeField(json, "max", path));
  ASSIGN_OR_RETURN(const ReportJson* sum, Field(json, "sum", path));
  if (!sum->is_number()) {
    return Wrong(absl::StrCat(path, ".sum"), "must be a number");
  }
  extremes.sum = sum->get<double>();
  ASSIGN_OR_RETURN(const ReportJson* list, Field(json, "buckets", path));
  ASSIGN_OR_RETURN(const std::vector<Bucket> buckets,
                   BucketsFromJson(*list, absl::StrCat(path, ".buckets")));
  RETURN_IF_ERROR(CheckExtremes(extremes, buckets, path));
  return Rebuild(buckets, extremes);
}

}  // namespace qgemm
