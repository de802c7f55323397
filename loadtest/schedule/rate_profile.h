// SPDX-License-Identifier: Apache-2.0
//
// Arrivals per second over the time of a run. The scatter of single arrivals
// around that rate is in arrivals.h.

#ifndef QGEMM_LOADTEST_SCHEDULE_RATE_PROFILE_H_
#define QGEMM_LOADTEST_SCHEDULE_RATE_PROFILE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace qgemm::loadtest {

// Range of requests/s in a profile.
inline constexpr double kMinRate = 0.001;
inline constexpr double kMaxRate = 1e7;

// A rate that is constant or changes linearly from segment to segment, and
// holds its last value for ever. Offsets count from the start; below zero
// nothing arrives. Immutable, and thread-safe.
class RateProfile {
 public:
  // `rate` within kMinRate..kMaxRate.
  static RateProfile Constant(double rate);

  // Requests/s at `offset`; where a segment ends, that of the next.
  double RateAt(absl::Duration offset) const;

  // The mean number of arrivals before `offset`: the integral of the rate.
  double ArrivalsUntil(absl::Duration offset) const;

  // The offset until which `arrivals` (0 or more) are due: the inverse of
  // ArrivalsUntil. Costs a few nanoseconds; allocates nothing.
  absl::Duration OffsetOf(double arrivals) const;

  // Requests/s on average over [from, to); `to` is above `from`.
  double MeanRate(absl::Duration from, absl::Duration to) const;

 private:
  friend absl::StatusOr<RateProfile> ParseRateProfile(absl::string_view text);

  // The rate from `start` on, up to the next segment.
  struct Segment {
    absl::Duration start;
    double start_arrivals = 0;
    double first_rate = 0;
    double slope = 0;  // requests/s per second
  };

  RateProfile() = default;

  // Appends a linear segment.
  void Append(double first_rate, double last_rate, absl::Duration length);
  // Appends the last one, which holds for ever.
  void Hold(double rate);

  // The last segment whose `member` is at most `value`.
  template <typename T>
  const Segment& SegmentAt(T Segment::*member, T value) const;

  std::vector<Segment> segments_;  // not empty
  absl::Duration end_;             // of the segments that end
  double end_arrivals_ = 0;        // until then
};

// Segments separated by commas: "500:10s" is a rate for a time, "100..5000:60s"
// a ramp; the last may be a rate alone, which holds for ever, as in "2000".
// Errors: INVALID_ARGUMENT that names the segment and what is allowed.
absl::StatusOr<RateProfile> ParseRateProfile(absl::string_view text);

}  // namespace qgemm::loadtest

#endif  // QGEMM_LOADTEST_SCHEDULE_RATE_PROFILE_H_
