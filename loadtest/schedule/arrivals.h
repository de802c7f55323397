// SPDX-License-Identifier: Apache-2.0
//
// When requests are due, one after the other. No clock: offsets count from the
// start of the run, whenever that is.

#ifndef QGEMM_LOADTEST_SCHEDULE_ARRIVALS_H_
#define QGEMM_LOADTEST_SCHEDULE_ARRIVALS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "absl/time/time.h"
#include "loadtest/schedule/arrival_process.h"
#include "loadtest/schedule/arrival_trace.h"
#include "loadtest/schedule/rate_profile.h"
#include "loadtest/schedule/unit_gaps.h"

namespace qgemm {

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

// Walks a trace once.
class TraceArrivals {
 public:
  TraceArrivals(std::shared_ptr<const ArrivalTrace> trace, double time_scale)
      : trace_(std::move(trace)), time_scale_(time_scale) {}

  std::optional<absl::Duration> Next();

 private:
  const std::shared_ptr<const ArrivalTrace> trace_;
  const double time_scale_;
  size_t next_ = 0;
};

// Offsets in ascending order, decided by the constructor's arguments alone:
// generators that share a run each walk the same sequence, and each takes its
// own of every so many. An arrival costs tens of nanoseconds and allocates
// nothing. Not thread-safe.
class ArrivalSequence {
 public:
  // Of kind kConstant, kPoisson or kGamma; it never ends.
  ArrivalSequence(const ArrivalProcess& process, RateProfile profile,
                  uint64_t seed);
  // A trace with its offsets multiplied by `time_scale`, above 0.
  ArrivalSequence(std::shared_ptr<const ArrivalTrace> trace, double time_scale);

  // The offset of the next arrival; nothing once a trace has ended.
  std::optional<absl::Duration> Next();

 private:
  std::variant<RenewalArrivals, TraceArrivals> arrivals_;
};

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_SCHEDULE_ARRIVALS_H_
