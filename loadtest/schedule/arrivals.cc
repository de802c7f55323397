// SPDX-License-Identifier: Apache-2.0
//
// Adds gaps up, and maps the sums to offsets.

#include "loadtest/schedule/arrivals.h"

#include <algorithm>
#include <utility>

namespace qgemm {

RenewalArrivals::RenewalArrivals(const ArrivalProcess& process,
                                 RateProfile profile, uint64_t seed)
    : profile_(std::move(profile)),
      gaps_(process, seed),
      fraction_(gaps_.First()) {}

absl::Duration RenewalArrivals::Next() {
  // Positive, and far below 2^63, so that the cast rounds down.
  const auto units = static_cast<double>(static_cast<int64_t>(fraction_));
  whole_units_ += units;
  fraction_ -= units;
  // Two sums that differ by less than rounding may map in the wrong order.
  last_ = std::max(last_, profile_.OffsetOf(whole_units_ + fraction_));
  fraction_ += gaps_.Next();
  return last_;
}

std::optional<absl::Duration> TraceArrivals::Next() {
  if (next_ == trace_->offsets.size()) return std::nullopt;
  return trace_->offsets[next_++] * time_scale_;
}

ArrivalSequence::ArrivalSequence(const ArrivalProcess& process,
                                 RateProfile profile, uint64_t seed)
    : arrivals_(std::in_place_type<RenewalArrivals>, process,
                std::move(profile), seed) {}

ArrivalSequence::ArrivalSequence(std::shared_ptr<const ArrivalTrace> trace,
                                 double time_scale)
    : arrivals_(std::in_place_type<TraceArrivals>, std::move(trace),
                time_scale) {}

std::optional<absl::Duration> ArrivalSequence::Next() {
  if (auto* renewal = std::get_if<RenewalArrivals>(&arrivals_)) {
    return renewal->Next();
  }
  return std::get<TraceArrivals>(arrivals_).Next();
}

}  // namespace qgemm
