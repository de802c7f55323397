// SPDX-License-Identifier: Apache-2.0
//
// Within a segment the arrivals after t seconds are first_rate * t +
// slope * t^2 / 2; the inverse is that quadratic's root in the form that does
// not cancel.

#include "loadtest/schedule/rate_profile.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace qgemm::loadtest {
namespace {

constexpr absl::Duration kMaxLength = absl::Hours(24 * 365);

struct ParsedSegment {
  double first_rate = 0;
  double last_rate = 0;
  absl::Duration length = absl::InfiniteDuration();
};

// The place of an error.
struct SegmentText {
  absl::string_view segment;
  size_t number = 0;  // from 1

  absl::Status Error(absl::string_view allowed) const {
    return absl::InvalidArgumentError(
        absl::StrCat("segment ", number, " \"", segment, "\": ", allowed));
  }
};

absl::StatusOr<double> ParseRate(absl::string_view rate,
                                 const SegmentText& text) {
  double value = 0;
  if (absl::SimpleAtod(rate, &value) && value >= kMinRate &&
      value <= kMaxRate) {
    return value;
  }
  return text.Error(absl::StrCat("rate \"", rate, "\" must be ", kMinRate,
                                 " to ", kMaxRate, " requests/s"));
}

absl::StatusOr<absl::Duration> ParseLength(absl::string_view length,
                                           const SegmentText& text) {
  absl::Duration value;
  if (absl::ParseDuration(length, &value) && value > absl::ZeroDuration() &&
      value <= kMaxLength) {
    return value;
  }
  return text.Error(absl::StrCat("length \"", length,
                                 "\" must be above 0 and at most a year, as "
                                 "in 500ms, 10s or 5m"));
}

absl::StatusOr<ParsedSegment> ParseSegment(const SegmentText& text) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text.segment, absl::MaxSplits(':', 1));
  const bool has_length = parts.first.size() < text.segment.size();
  const size_t dots = parts.first.find("..");
  const bool is_ramp = dots != absl::string_view::npos;
  if (is_ramp && !has_length) {
    return text.Error("a ramp needs a length, as in 100..5000:60s");
  }
  ParsedSegment parsed;
  ASSIGN_OR_RETURN(parsed.first_rate,
                   ParseRate(parts.first.substr(0, dots), text));
  parsed.last_rate = parsed.first_rate;
  if (is_ramp) {
    ASSIGN_OR_RETURN(parsed.last_rate,
                     ParseRate(parts.first.substr(dots + 2), text));
  }
  if (has_length) {
    ASSIGN_OR_RETURN(parsed.length, ParseLength(parts.second, text));
  }
  return parsed;
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
    const SegmentText segment{segments[i], i + 1};
    ASSIGN_OR_RETURN(parsed, ParseSegment(segment));
    if (parsed.length == absl::InfiniteDuration()) {
      if (i + 1 == segments.size()) break;
      return segment.Error("only the last segment may be without a length");
    }
    profile.Append(parsed.first_rate, parsed.last_rate, parsed.length);
    if (profile.end_ > kMaxLength) {
      return segment.Error("all lengths together must be at most a year");
    }
  }
  profile.Hold(parsed.last_rate);
  return profile;
}

}  // namespace qgemm::loadtest
