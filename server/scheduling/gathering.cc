// SPDX-License-Identifier: Apache-2.0

#include "server/scheduling/gathering.h"

#include <algorithm>

namespace qgemm {
namespace {

// Shorter launches are over before a client has read its answer and asked
// again.
constexpr absl::Duration kLeastLaunch = absl::Microseconds(160);
constexpr absl::Duration kMostPatience = absl::Milliseconds(1);
// Fewer are answered before their launch counts as ended (batch_dispatcher.h).
constexpr int64_t kLeastRequests = 3;

absl::Duration PatienceAfter(absl::Duration launch) {
  if (launch < kLeastLaunch) return absl::ZeroDuration();
  return std::min(launch / 4, kMostPatience);
}

}  // namespace

void Gathering::Began(const FairQueue* queue, int64_t requests,
                      absl::Time now) {
  running_.push_back({queue, requests, now});
}

void Gathering::Ended(absl::Time now) {
  const Launch ended = running_.front();
  running_.erase(running_.begin());
  if (ended.queue != last_.queue) {
    pays_ = false;
  } else if (last_.requests >= kLeastRequests) {
    pays_ = CameBack();
  }
  // One that began behind another has run since that one's end.
  const absl::Duration time = now - std::max(ended.start, end_);
  last_ = ended;
  end_ = now;
  patience_ends_ = now + PatienceAfter(time);
  arrived_ = 0;
  arrived_in_time_ = 0;
}

void Gathering::Arrived(const FairQueue* queue, absl::Time arrival) {
  if (queue != last_.queue) return;
  ++arrived_;
  if (arrival <= patience_ends_) ++arrived_in_time_;
}

bool Gathering::CameBack() const {
  return patience_ends_ > end_ && 4 * arrived_in_time_ >= 3 * last_.requests;
}

bool Gathering::IsRunning(const FairQueue* queue) const {
  return std::any_of(
      running_.begin(), running_.end(),
      [queue](const Launch& launch) { return launch.queue == queue; });
}

absl::Time Gathering::WaitsUntil(const FairQueue* queue) const {
  if (!pays_ || queue != last_.queue) return absl::InfinitePast();
  if (IsRunning(queue)) return absl::InfiniteFuture();
  const bool waits =
      last_.requests >= kLeastRequests && arrived_ < last_.requests;
  return waits ? patience_ends_ : absl::InfinitePast();
}

}  // namespace qgemm
