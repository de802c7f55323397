// SPDX-License-Identifier: Apache-2.0
//
// The metrics as a scraper reads them, and one series of them.

#ifndef QGEMM_TESTS_SERVER_METRICS_METRICS_TEXT_H_
#define QGEMM_TESTS_SERVER_METRICS_METRICS_TEXT_H_

#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "server/metrics/server_metrics.h"

namespace qgemm {

inline std::string MetricsText(const ServerMetrics& metrics) {
  return prometheus::TextSerializer().Serialize(metrics.registry()->Collect());
}

// The value of a series, named as in the text with its labels; nothing if
// there is no such line.
inline std::optional<double> MetricValue(const ServerMetrics& metrics,
                                         absl::string_view series) {
  const std::string text = MetricsText(metrics);
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    double value;
    if (absl::ConsumePrefix(&line, series) && absl::ConsumePrefix(&line, " ") &&
        absl::SimpleAtod(line, &value)) {
      return value;
    }
  }
  return std::nullopt;
}

}  // namespace qgemm

#endif  // QGEMM_TESTS_SERVER_METRICS_METRICS_TEXT_H_
