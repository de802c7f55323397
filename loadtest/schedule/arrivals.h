// SPDX-License-Identifier: Apache-2.0
//
// Due times of open arrivals, from --arrivals and a rate, or from a trace. No
// clock: offsets count from the start of the run.

#ifndef QGEMM_LOADTEST_SCHEDULE_ARRIVALS_H_
#define QGEMM_LOADTEST_SCHEDULE_ARRIVALS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "loadtest/schedule/rate_profile.h"

namespace qgemm::loadtest {

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

  absl::Duration length() const { return offsets.back(); }
  // Arrivals/s from the start to the last arrival; 0 if all are at the start.
  double mean_rate() const;
};

// One offset a line, in seconds as a decimal number, none below the one before
// it. '#' begins a comment; empty lines are skipped.
// Errors: INVALID_ARGUMENT that names the line and what is allowed.
absl::StatusOr<ArrivalTrace> ParseArrivalTrace(absl::string_view text);

// The factor on the offsets that gives a mean of `rate` arrivals/s.
// Errors: INVALID_ARGUMENT if all arrivals are at the start.
absl::StatusOr<double> TimeScaleFor(const ArrivalTrace& trace, double rate);

// A renewal process of unit mean, mapped through the inverse of the profile's
// cumulative arrivals: it keeps its character while the rate changes. Endless.
class RenewalArrivals {
 public:
  RenewalArrivals(const ArrivalProcess& process, RateProfile profile,
                  uint64_t seed);

  absl::Duration Next();

 private:
  const RateProfile profile_;
  UnitGaps gaps_;
  // The next arrival, in units of the process. Split, so that a sum of 10^7
  // gaps is as exact as its parts.
  double whole_units_ = 0;
  double fraction_;
  absl::Duration last_;
};

// Offsets in ascending order, a function of the constructor's arguments alone:
// senders that share a run each walk the same sequence, and each takes every
// so many-th arrival. An arrival costs tens of nanoseconds and allocates
// nothing. Not thread-safe.
class ArrivalSequence {
 public:
  // kConstant, kPoisson or kGamma; never ends.
  ArrivalSequence(const ArrivalProcess& process, RateProfile profile,
                  uint64_t seed)
      : arrivals_(std::in_place_type<RenewalArrivals>, process,
                  std::move(profile), seed) {}
  // A trace with its offsets multiplied by `time_scale`, above 0.
  ArrivalSequence(std::shared_ptr<const ArrivalTrace> trace, double time_scale)
      : arrivals_(TraceArrivals{std::move(trace), time_scale, 0}) {}

  // The offset of the next arrival; nullopt at the end of a trace.
  std::optional<absl::Duration> Next();

 private:
  struct TraceArrivals {
    std::shared_ptr<const ArrivalTrace> trace;
    double time_scale;
    size_t next;
  };

  std::variant<RenewalArrivals, TraceArrivals> arrivals_;
};

}  // namespace qgemm::loadtest

#endif  // QGEMM_LOADTEST_SCHEDULE_ARRIVALS_H_
