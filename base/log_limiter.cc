// SPDX-License-Identifier: Apache-2.0

#include "base/log_limiter.h"

#include <algorithm>
#include <utility>

namespace qgemm {
namespace {

constexpr absl::Duration kGuaranteedEvery = absl::Seconds(1);
constexpr absl::Duration kQuiet = absl::Seconds(2);
constexpr absl::string_view kFurtherNames = "further names";

}  // namespace

void LogLimiter::Bucket::Refill(const LineRate& rate, absl::Time now) {
  // A new bucket is full.
  const double refill =
      rate.lines_per_second * absl::ToDoubleSeconds(now - refilled_);
  lines_ = std::min(rate.burst, lines_ + refill);
  refilled_ = now;
}

void LogLimiter::Bucket::TakeLine() { lines_ = std::max(0.0, lines_ - 1); }

LogLimiter::Name& LogLimiter::Find(absl::string_view name) {
  const auto found = names_.find(name);
  if (found != names_.end()) return found->second;
  return names_[std::string(names_.size() < limits_.max_names ? name
                                                              : kFurtherNames)];
}

LogLimiter::Verdict LogLimiter::Admit(absl::string_view name, absl::Time now) {
  MutexLock lock(&mutex_);
  Name& found = Find(name);
  found.bucket.Refill(limits_.name, now);
  total_.Refill(limits_.total, now);
  const bool guaranteed = now - found.last_admitted >= kGuaranteedEvery;
  if (!found.bucket.has_line() || !(total_.has_line() || guaranteed)) {
    ++found.suppressed;
    found.last_refused = now;
    return {};
  }
  found.bucket.TakeLine();
  total_.TakeLine();
  found.last_admitted = now;
  return {true, std::exchange(found.suppressed, 0)};
}

std::vector<LogLimiter::Suppressed> LogLimiter::TakeSuppressed(absl::Time now) {
  MutexLock lock(&mutex_);
  std::vector<Suppressed> taken;
  for (auto& [name, state] : names_) {
    if (state.suppressed == 0 || now - state.last_refused < kQuiet) continue;
    taken.push_back({name, std::exchange(state.suppressed, 0)});
  }
  return taken;
}

}  // namespace qgemm
