// SPDX-License-Identifier: Apache-2.0

#include "loadtest/slo.h"

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace qgemm {
namespace {

absl::StatusOr<LatencyBound> ParseBound(absl::string_view text) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits('=', 1));
  LatencyBound bound;
  bound.name = std::string(parts.first);
  absl::string_view percent = parts.first;
  if (!absl::ConsumePrefix(&percent, "p") ||
      !absl::SimpleAtod(percent, &bound.percent) || !(bound.percent > 0) ||
      bound.percent > 100 || !absl::ParseDuration(parts.second, &bound.limit) ||
      bound.limit <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--slo: '", text,
        "' must be a percentile above p0 to p100 and a time, as in "
        "p99=500us"));
  }
  return bound;
}

}  // namespace

absl::StatusOr<Slo> ParseSlo(absl::string_view text) {
  Slo slo;
  if (text.empty()) return slo;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    ASSIGN_OR_RETURN(LatencyBound bound, ParseBound(part));
    slo.push_back(std::move(bound));
  }
  return slo;
}

std::vector<std::string> MissedBounds(const RunResult& run, const Slo& slo) {
  std::vector<std::string> missed;
  const Histogram latency_ns = run.latency_ns();
  for (const LatencyBound& bound : slo) {
    if (latency_ns.empty()) {
      missed.push_back(absl::StrCat(bound.name, " has no answer to be of"));
      continue;
    }
    const absl::Duration value =
        absl::Nanoseconds(latency_ns.Percentile(bound.percent));
    if (value <= bound.limit) continue;
    missed.push_back(absl::StrCat(bound.name, " is ",
                                  absl::FormatDuration(value), ", above ",
                                  absl::FormatDuration(bound.limit)));
  }
  return missed;
}

}  // namespace qgemm
