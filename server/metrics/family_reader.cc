// SPDX-License-Identifier: Apache-2.0

#include "server/metrics/family_reader.h"

#include <algorithm>
#include <cmath>

namespace qgemm {
namespace {

// Returns the value of `label`; "" without one.
absl::string_view LabelOf(const prometheus::ClientMetric& metric,
                          absl::string_view label) {
  for (const auto& one : metric.label) {
    if (one.name == label) return one.value;
  }
  return "";
}

bool Matches(const prometheus::ClientMetric& metric, const SeriesName& name) {
  return name.label.empty() || LabelOf(metric, name.label) == name.value;
}

// Sums of the cumulative counts of matching histograms, which share bounds.
std::vector<prometheus::ClientMetric::Bucket> BucketsOf(
    const FamilySnapshot& snapshot, const SeriesName& name) {
  std::vector<prometheus::ClientMetric::Bucket> sum;
  const prometheus::MetricFamily* const family = snapshot.Find(name.family);
  if (family == nullptr) return sum;
  for (const prometheus::ClientMetric& metric : family->metric) {
    if (!Matches(metric, name)) continue;
    const auto& buckets = metric.histogram.bucket;
    sum.resize(buckets.size());
    for (size_t i = 0; i < buckets.size(); ++i) {
      sum[i].upper_bound = buckets[i].upper_bound;
      sum[i].cumulative_count += buckets[i].cumulative_count;
    }
  }
  return sum;
}

}  // namespace

const prometheus::MetricFamily* FamilySnapshot::Find(
    absl::string_view family) const {
  const auto found = std::find_if(
      families.begin(), families.end(),
      [&](const prometheus::MetricFamily& one) { return one.name == family; });
  return found == families.end() ? nullptr : &*found;
}

double FamilySnapshot::Sum(const SeriesName& name) const {
  const prometheus::MetricFamily* const family = Find(name.family);
  if (family == nullptr) return 0;
  double sum = 0;
  for (const prometheus::ClientMetric& metric : family->metric) {
    if (!Matches(metric, name)) continue;
    sum += family->type == prometheus::MetricType::Counter
               ? metric.counter.value
               : metric.gauge.value;
  }
  return sum;
}

std::vector<std::string> FamilySnapshot::ValuesOf(
    absl::string_view family, absl::string_view label) const {
  std::vector<std::string> values;
  const prometheus::MetricFamily* const found = Find(family);
  if (found == nullptr) return values;
  for (const prometheus::ClientMetric& metric : found->metric) {
    std::string value(LabelOf(metric, label));
    if (std::find(values.begin(), values.end(), value) == values.end()) {
      values.push_back(std::move(value));
    }
  }
  return values;
}

std::string FamilySnapshot::Label(absl::string_view family,
                                  absl::string_view label) const {
  const std::vector<std::string> values = ValuesOf(family, label);
  return values.empty() ? "" : values.front();
}

std::optional<double> FamilyChange::Rate(const SeriesName& name) const {
  if (before == nullptr) return std::nullopt;
  const double seconds = absl::ToDoubleSeconds(now->time - before->time);
  // A series may have lost its place to another one meanwhile.
  const double increase = std::max(0.0, now->Sum(name) - before->Sum(name));
  return increase / seconds;
}

std::optional<double> FamilyChange::Quantile(const SeriesName& name,
                                             double share) const {
  if (before == nullptr) return std::nullopt;
  auto buckets = BucketsOf(*now, name);
  const auto old = BucketsOf(*before, name);
  for (size_t i = 0; i < std::min(buckets.size(), old.size()); ++i) {
    buckets[i].cumulative_count -= old[i].cumulative_count;
  }
  if (buckets.empty() || buckets.back().cumulative_count == 0) {
    return std::nullopt;
  }
  const double least =
      share * static_cast<double>(buckets.back().cumulative_count);
  for (const auto& bucket : buckets) {
    if (static_cast<double>(bucket.cumulative_count) < least) continue;
    if (std::isinf(bucket.upper_bound)) break;
    return bucket.upper_bound;
  }
  return std::nullopt;
}

}  // namespace qgemm
