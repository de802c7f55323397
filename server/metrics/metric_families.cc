// SPDX-License-Identifier: Apache-2.0
//
// Scales double from bound to bound.

#include "server/metrics/metric_families.h"

#include <cmath>
#include <limits>

namespace qgemm {
namespace {

// Returns `count` bounds, each twice the one before.
std::vector<double> Doubling(double first, int count) {
  std::vector<double> bounds;
  for (double bound = first; count > 0; --count, bound *= 2) {
    bounds.push_back(bound);
  }
  return bounds;
}

}  // namespace

prometheus::ClientMetric::Histogram CutAtBounds(const Histogram& histogram,
                                                const ExportedScale& scale) {
  prometheus::ClientMetric::Histogram cut;
  int64_t seen = 0;
  size_t next = 0;
  const auto pass_bounds_below = [&](int64_t value) {
    while (next < scale.bounds.size() &&
           std::llround(scale.bounds[next] * scale.values_per_unit) < value) {
      cut.bucket.push_back({static_cast<uint64_t>(seen), scale.bounds[next++]});
    }
  };
  histogram.ForEachBucket([&](const Histogram::Bucket& bucket) {
    pass_bounds_below(bucket.lowest);
    seen += bucket.count;
  });
  pass_bounds_below(std::numeric_limits<int64_t>::max());
  cut.sample_count = static_cast<uint64_t>(histogram.count());
  cut.sample_sum = histogram.sum() / scale.values_per_unit;
  cut.bucket.push_back(
      {cut.sample_count, std::numeric_limits<double>::infinity()});
  return cut;
}

ExportedScale LatencyScale() {
  return {Doubling(10e-6, 23), kNanosecondsPerSecond};
}
ExportedScale DeviceScale() {
  return {Doubling(1e-6, 24), kNanosecondsPerSecond};
}
ExportedScale RowScale() { return {Doubling(1, 14), 1}; }
ExportedScale RequestScale() { return {Doubling(1, 9), 1}; }

int64_t LargestBound(const ExportedScale& scale) {
  return static_cast<int64_t>(scale.bounds.back() * scale.values_per_unit);
}

prometheus::Counter* AddCounter(prometheus::Registry& registry,
                                const char* name, const char* help) {
  return &prometheus::BuildCounter()
              .Name(name)
              .Help(help)
              .Register(registry)
              .Add({});
}

prometheus::Gauge* AddGauge(prometheus::Registry& registry, const char* name,
                            const char* help) {
  return &prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add(
      {});
}

prometheus::MetricFamily SampledGauge(const char* name, const char* help,
                                      double value) {
  prometheus::ClientMetric metric;
  metric.gauge.value = value;
  return {name, help, prometheus::MetricType::Gauge, {metric}};
}

}  // namespace qgemm
