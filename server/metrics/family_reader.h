// SPDX-License-Identifier: Apache-2.0
//
// Reads figures back out of collected metric families, so that the status page
// shows what a scraper sees: sums of series, differences since an earlier
// moment, quantiles of what came in between.

#ifndef QGEMM_SERVER_METRICS_FAMILY_READER_H_
#define QGEMM_SERVER_METRICS_FAMILY_READER_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/metrics/metric_families.h"

namespace qgemm {

// Series of one family, all of them or those with one value of one label.
struct SeriesName {
  absl::string_view family;
  absl::string_view label = {};
  absl::string_view value = {};
};

// All families at one moment.
struct FamilySnapshot {
  absl::Time time = absl::InfinitePast();
  MetricFamilies families;

  // Sum of the counters or gauges; 0 if there are none.
  double Sum(const SeriesName& name) const;

  // Returns the values of `label` in the family's series, in their order.
  std::vector<std::string> ValuesOf(absl::string_view family,
                                    absl::string_view label) const;

  // Returns the first series' value of `label`; "" if there is none.
  std::string Label(absl::string_view family, absl::string_view label) const;

  const prometheus::MetricFamily* Find(absl::string_view family) const;
};

// Both moments of a difference; `before` may be null, and there are no rates
// then.
struct FamilyChange {
  const FamilySnapshot* now = nullptr;
  const FamilySnapshot* before = nullptr;

  // Increase of counters a second.
  std::optional<double> Rate(const SeriesName& name) const;

  // Least bound of the histogram's buckets that the given share of its values
  // since `before` does not exceed; nothing if there were none, or if it is
  // above all bounds.
  std::optional<double> Quantile(const SeriesName& name, double share) const;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_METRICS_FAMILY_READER_H_
