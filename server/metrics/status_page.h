// SPDX-License-Identifier: Apache-2.0
//
// The page that people look at: health, device, queue, rates, refusals, layers,
// clients, connections. Plain HTML of the figures that /metrics exports.

#ifndef QGEMM_SERVER_METRICS_STATUS_PAGE_H_
#define QGEMM_SERVER_METRICS_STATUS_PAGE_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/metrics/family_reader.h"
#include "server/metrics/http_message.h"
#include "server/metrics/metric_families.h"
#include "server/metrics/server_metrics.h"

namespace qgemm {

// Returns the text with what HTML reads as markup, in elements and in quoted
// attributes, written as entities.
std::string EscapeHtml(absl::string_view text);

// Remembers the last two looks at least a second apart, so that the next one
// shows rates; a page that is open looks every two seconds. Not thread-safe.
class StatusPage {
 public:
  // Rows of a table; the rest is left to /metrics.
  static constexpr int kMaxRows = 32;
  // A look before that long ago gives no rates.
  static constexpr absl::Duration kMaxAge = absl::Minutes(1);

  // `now` is of a steady clock, `wall_now` of the wall clock.
  HttpResponse Render(MetricFamilies families, const HealthReport& health,
                      absl::Time now, absl::Time wall_now);

 private:
  const FamilySnapshot* Before(absl::Time now) const;

  std::vector<FamilySnapshot> looks_;  // at most two, the older first
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_METRICS_STATUS_PAGE_H_
