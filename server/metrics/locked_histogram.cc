// SPDX-License-Identifier: Apache-2.0

#include "server/metrics/locked_histogram.h"

#include <cmath>
#include <limits>

namespace qgemm {

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

}  // namespace qgemm
