// SPDX-License-Identifier: Apache-2.0

#include "server/metrics/metric_families.h"

namespace qgemm {
namespace {

// `count` bounds, each twice the one before.
std::vector<double> Doubling(double first, int count) {
  std::vector<double> bounds;
  for (double bound = first; count > 0; --count, bound *= 2) {
    bounds.push_back(bound);
  }
  return bounds;
}

}  // namespace

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

}  // namespace qgemm
