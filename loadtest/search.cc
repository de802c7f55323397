// SPDX-License-Identifier: Apache-2.0

#include "loadtest/search.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace qgemm::loadtest {
namespace {

constexpr int kMaxPoints = 100;

// By SweptFlag.
constexpr absl::string_view kFlags[] = {"rate", "concurrency", "m"};

absl::Status Bad(absl::string_view reason) {
  return absl::InvalidArgumentError(absl::StrCat(
      reason,
      "; allowed are rate=100,200,400, concurrency=1..64/7 and m=1,16 with at "
      "most ",
      kMaxPoints, " values"));
}

double RoundedToThreeDigits(double value) {
  const double unit = std::pow(10.0, std::floor(std::log10(value)) - 2);
  return std::round(value / unit) * unit;
}

// The text of a rate, or of a whole number from 1.
std::string ValueOf(SweptFlag flag, double value) {
  if (flag == SweptFlag::kRate)
    return absl::StrCat(RoundedToThreeDigits(value));
  return absl::StrFormat("%.0f", std::max(1.0, std::round(value)));
}

// flag=first..last/count.
absl::StatusOr<std::vector<std::string>> ParseRange(absl::string_view text,
                                                    SweptFlag flag) {
  const std::pair<absl::string_view, absl::string_view> ends =
      absl::StrSplit(text.substr(text.find('=') + 1), absl::MaxSplits("..", 1));
  const std::pair<absl::string_view, absl::string_view> last =
      absl::StrSplit(ends.second, absl::MaxSplits('/', 1));
  double from = 0;
  double to = 0;
  int count = 0;
  if (!absl::SimpleAtod(ends.first, &from) ||
      !absl::SimpleAtod(last.first, &to) ||
      !absl::SimpleAtoi(last.second, &count) || !(from > 0) || !(to > from) ||
      !std::isfinite(to) || count < 2 || count > kMaxPoints) {
    return Bad("must be a range first..last/count with 0 < first < last");
  }
  std::vector<std::string> values;
  for (int i = 0; i < count; ++i) {
    const double value = from * std::pow(to / from, double(i) / (count - 1));
    const std::string rounded = ValueOf(flag, value);
    if (values.empty() || values.back() != rounded) values.push_back(rounded);
  }
  return values;
}

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
        "'", text,
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

std::string Sweep::Label(size_t point) const {
  return absl::StrCat(kFlags[static_cast<size_t>(flag)], "=", values[point]);
}

absl::StatusOr<Sweep> ParseSweep(absl::string_view text) {
  Sweep sweep;
  if (text.empty()) return sweep;
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits('=', 1));
  const auto* const found = absl::c_find(kFlags, parts.first);
  if (found == std::end(kFlags)) return Bad("is no flag to sweep");
  sweep.flag = static_cast<SweptFlag>(found - kFlags);
  if (absl::string_view(parts.second).find("..") != absl::string_view::npos) {
    ASSIGN_OR_RETURN(sweep.values, ParseRange(text, sweep.flag));
    return sweep;
  }
  sweep.values = absl::StrSplit(parts.second, ',', absl::SkipEmpty());
  if (sweep.values.empty() || sweep.values.size() > kMaxPoints) {
    return Bad(absl::StrCat("has ", sweep.values.size(), " values"));
  }
  return sweep;
}

PeakSearch::PeakSearch(const PeakSearchOptions& options)
    : options_(options),
      confirm_step_(options.resolution),
      confirm_attempts_left_(options.confirm_attempts) {}

bool PeakSearch::IsNarrow() const {
  if (holds_ >= options_.highest_rate) return true;
  return holds_ > 0 && fails_ > 0 &&
         fails_ - holds_ <= options_.resolution * holds_;
}

double PeakSearch::NextRate() const {
  if (confirming_rate_ > 0) return confirming_rate_;
  if (holds_ == 0 && fails_ == 0) return options_.first_rate;
  if (fails_ == 0) return std::min(2 * holds_, options_.highest_rate);
  if (holds_ == 0) return fails_ / 2;
  return std::sqrt(holds_ * fails_);
}

std::optional<PeakSearch::Step> PeakSearch::Next() const {
  if (ended_) return std::nullopt;
  return Step{NextRate(), confirming_rate_ > 0};
}

void PeakSearch::Tell(bool held) {
  if (confirming_rate_ > 0) {
    if (held) confirmed_ = confirming_rate_;
    ended_ = held || --confirm_attempts_left_ == 0;
    confirming_rate_ /= 1 + confirm_step_;
    confirm_step_ *= 2;
    return;
  }
  const double rate = NextRate();
  if (held) {
    holds_ = std::max(holds_, rate);
  } else {
    fails_ = rate;
  }
  if (IsNarrow()) confirming_rate_ = holds_;
  if (holds_ == 0 && fails_ / 2 < options_.lowest_rate) ended_ = true;
}

}  // namespace qgemm::loadtest
