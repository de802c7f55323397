// SPDX-License-Identifier: Apache-2.0
//
// Within a segment the arrivals after t seconds are first_rate * t +
// slope * t^2 / 2; the inverse is that quadratic's root in the form that does
// not cancel.

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "loadtest/schedule/arrivals.h"

namespace qgemm::loadtest {
namespace {

constexpr absl::Duration kMaxLength = absl::Hours(24 * 365);

struct ParsedSegment {
  double first_rate = 0;
  double last_rate = 0;
  absl::Duration length = absl::InfiniteDuration();
};

bool ParseRate(absl::string_view text, double* rate) {
  return absl::SimpleAtod(text, rate) && *rate >= kMinRate && *rate <= kMaxRate;
}

// RATE, RATE:LENGTH or FIRST..LAST:LENGTH.
bool ParseSegment(absl::string_view text, ParsedSegment* parsed) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits(':', 1));
  const bool has_length = parts.first.size() < text.size();
  if (has_length &&
      (!absl::ParseDuration(parts.second, &parsed->length) ||
       parsed->length <= absl::ZeroDuration() || parsed->length > kMaxLength)) {
    return false;
  }
  const size_t dots = parts.first.find("..");
  if (!ParseRate(parts.first.substr(0, dots), &parsed->first_rate)) {
    return false;
  }
  parsed->last_rate = parsed->first_rate;
  if (dots == absl::string_view::npos) return true;
  return has_length &&
         ParseRate(parts.first.substr(dots + 2), &parsed->last_rate);
}

}  // namespace

RateProfile RateProfile::Constant(double rate) {
  CHECK(rate >= kMinRate && rate <= kMaxRate) << rate << " requests/s";
  RateProfile profile;
  profile.Hold(rate);
  return profile;
}

void RateProfile::Append(double first_rate, double last_rate,
                         absl::Duration length) {
  const double seconds = absl::ToDoubleSeconds(length);
  segments_.push_back(
      {end_, end_arrivals_, first_rate, (last_rate - first_rate) / seconds});
  end_ += length;
  end_arrivals_ += (first_rate + last_rate) / 2 * seconds;
}

void RateProfile::Hold(double rate) {
  segments_.push_back({end_, end_arrivals_, rate, 0});
}

template <typename T>
const RateProfile::Segment& RateProfile::SegmentAt(T Segment::*member,
                                                   T value) const {
  const auto after = std::upper_bound(
      segments_.begin() + 1, segments_.end(), value,
      [member](T at, const Segment& segment) { return at < segment.*member; });
  return *std::prev(after);
}

double RateProfile::RateAt(absl::Duration offset) const {
  if (offset < absl::ZeroDuration()) return 0;
  const Segment& segment = SegmentAt(&Segment::start, offset);
  return segment.first_rate +
         segment.slope * absl::ToDoubleSeconds(offset - segment.start);
}

double RateProfile::ArrivalsUntil(absl::Duration offset) const {
  if (offset <= absl::ZeroDuration()) return 0;
  const Segment& segment = SegmentAt(&Segment::start, offset);
  const double seconds = absl::ToDoubleSeconds(offset - segment.start);
  return segment.start_arrivals +
         seconds * (segment.first_rate + segment.slope * seconds / 2);
}

absl::Duration RateProfile::OffsetOf(double arrivals) const {
  const Segment& segment = SegmentAt(&Segment::start_arrivals, arrivals);
  const double into = arrivals - segment.start_arrivals;
  if (segment.slope == 0) {
    return segment.start + absl::Seconds(into / segment.first_rate);
  }
  // The rate there, squared; above 0 but for rounding.
  const double rate_squared =
      segment.first_rate * segment.first_rate + 2 * segment.slope * into;
  const double rate = std::sqrt(std::max(rate_squared, 0.0));
  return segment.start + absl::Seconds(2 * into / (segment.first_rate + rate));
}

double RateProfile::MeanRate(absl::Duration from, absl::Duration to) const {
  return (ArrivalsUntil(to) - ArrivalsUntil(from)) /
         absl::ToDoubleSeconds(to - from);
}

absl::StatusOr<RateProfile> ParseRateProfile(absl::string_view text) {
  const std::vector<absl::string_view> segments = absl::StrSplit(text, ',');
  RateProfile profile;
  ParsedSegment parsed;
  for (size_t i = 0; i < segments.size(); ++i) {
    const bool is_last = i + 1 == segments.size();
    parsed = ParsedSegment();
    const bool right = ParseSegment(segments[i], &parsed);
    const bool holds = parsed.length == absl::InfiniteDuration();
    if (right && !holds) {
      profile.Append(parsed.first_rate, parsed.last_rate, parsed.length);
    }
    if (right && (is_last || !holds) && profile.end_ <= kMaxLength) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "segment ", i + 1, " \"", segments[i],
        "\": must be RATE:LENGTH, a ramp FIRST..LAST:LENGTH or, as the last, "
        "RATE; rates must be ",
        kMinRate, " to ", kMaxRate,
        " requests/s, lengths above 0 and together at most a year, as in "
        "500ms, 10s or 5m"));
  }
  profile.Hold(parsed.last_rate);
  return profile;
}

}  // namespace qgemm::loadtest
