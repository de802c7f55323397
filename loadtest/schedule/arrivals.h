// SPDX-License-Identifier: Apache-2.0
//
// Due times of open arrivals: a rate over time, the scatter of arrivals around
// it, or a trace. No clock: offsets count from the start of the run.

#ifndef QGEMM_LOADTEST_SCHEDULE_ARRIVALS_H_
#define QGEMM_LOADTEST_SCHEDULE_ARRIVALS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
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

enum class ArrivalKind : uint8_t {
  kConstant,  // equal gaps
  kPoisson,   // exponential gaps: callers independent of each other
  kGamma,     // gaps more even (variation < 1) or burstier (> 1) than those
  kTrace,     // at the offsets that a file lists
};

// Coefficients of variation that gamma gaps may have.
inline constexpr double kMinVariation = 0.1;
inline constexpr double kMaxVariation = 10;

struct ArrivalProcess {
  ArrivalKind kind = ArrivalKind::kPoisson;
  // kGamma: standard deviation of the gaps over their mean, within
  // kMinVariation..kMaxVariation.
  double variation = 1;
  std::string trace_path;  // kTrace
};

// Independent gaps of mean 1, a function of process and seed. Not thread-safe;
// copies go on alike.
class UnitGaps {
 public:
  // The process is kConstant, kPoisson or kGamma.
  UnitGaps(const ArrivalProcess& process, uint64_t seed);

  // From the start to the first arrival; called first. The process is in
  // equilibrium, as though it had run for ever: the mean number of arrivals
  // until t is t, for every kind. Constant gaps start with the mean, 0.5.
  // Source: Cox, Renewal Theory (1962), sections 2.2 and 5.2.
  double First();

  // From one arrival to the next.
  double Next();

 private:
  const bool constant_;
  const double shape_;  // of the gamma distribution; 1: exponential
  std::gamma_distribution<double> gaps_;
  std::mt19937_64 random_;
};

// "constant", "poisson", "gamma:CV" or "trace:FILE".
// Errors: INVALID_ARGUMENT that says what is allowed.
absl::StatusOr<ArrivalProcess> ParseArrivalProcess(absl::string_view text);

// Recorded arrivals.
struct ArrivalTrace {
  std::vector<absl::Duration> offsets;  // ascending, 0 or more; not empty

  // Arrivals/s from the start to the last arrival; 0 if all are at the start.
  double mean_rate() const;
};

// One offset a line, in seconds as a decimal number, none below the one before
// it. '#' begins a comment; empty lines are skipped.
// Errors: INVALID_ARGUMENT that names the line and what is allowed.
absl::StatusOr<ArrivalTrace> ParseArrivalTrace(absl::string_view text);

// Offsets in ascending order, a function of the constructor's arguments alone:
// senders that share a run each walk the same sequence, and each takes every
// so many-th arrival. An arrival costs tens of nanoseconds and allocates
// nothing. Not thread-safe.
class ArrivalSequence {
 public:
  // kConstant, kPoisson or kGamma: a renewal process of unit mean, mapped
  // through the inverse of the profile's cumulative arrivals, so that it keeps
  // its character while the rate changes. Never ends.
  ArrivalSequence(const ArrivalProcess& process, RateProfile profile,
                  uint64_t seed);
  // A trace with its offsets multiplied by `time_scale`, above 0.
  ArrivalSequence(std::shared_ptr<const ArrivalTrace> trace, double time_scale)
      : trace_(std::move(trace)), time_scale_(time_scale) {}

  // The offset of the next arrival; nullopt at the end of a trace.
  std::optional<absl::Duration> Next();

 private:
  std::shared_ptr<const ArrivalTrace> trace_;  // null: a process
  double time_scale_ = 1;
  size_t next_ = 0;  // of the trace
  std::optional<RateProfile> profile_;
  std::optional<UnitGaps> gaps_;
  // The next arrival, in units of the process. Split, so that a sum of 10^7
  // gaps is as exact as its parts.
  double whole_units_ = 0;
  double fraction_ = 0;
  absl::Duration last_;
};

}  // namespace qgemm::loadtest

#endif  // QGEMM_LOADTEST_SCHEDULE_ARRIVALS_H_
