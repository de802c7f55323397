// SPDX-License-Identifier: Apache-2.0

#include "server/weights/eviction.h"

#include <algorithm>

namespace qgemm {
namespace {

bool Stays(const EvictionCandidate& layer, absl::Time now) {
  return !layer.is_on_disk || layer.is_pinned || layer.is_held ||
         now < layer.leased_until;
}

// The time from which the layer may go by its last use.
absl::Time RipeAt(const EvictionCandidate& layer, const EvictionRule& rule) {
  return layer.last_use + rule.min_residency;
}

// The time when the first lease ends of layers that nothing else keeps; the
// infinite future if there is none.
absl::Time FirstLeaseEnd(absl::Span<const EvictionCandidate> candidates,
                         absl::Time now) {
  absl::Time first = absl::InfiniteFuture();
  for (const EvictionCandidate& layer : candidates) {
    const bool is_leased_alone = layer.is_on_disk && !layer.is_pinned &&
                                 !layer.is_held && now < layer.leased_until;
    if (is_leased_alone) first = std::min(first, layer.leased_until);
  }
  return first;
}

// The first of `order` that have the bytes; none if all have too few.
std::vector<size_t> Enough(absl::Span<const EvictionCandidate> candidates,
                           absl::Span<const size_t> order,
                           int64_t needed_bytes) {
  int64_t freed_bytes = 0;
  std::vector<size_t> victims;
  for (const size_t i : order) {
    if (freed_bytes >= needed_bytes) break;
    victims.push_back(i);
    freed_bytes += candidates[i].bytes;
  }
  if (freed_bytes < needed_bytes) victims.clear();
  return victims;
}

}  // namespace

std::vector<size_t> ChooseVictims(
    absl::Span<const EvictionCandidate> candidates, int64_t needed_bytes,
    absl::Time now, const EvictionRule& rule) {
  std::vector<size_t> oldest;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const EvictionCandidate& layer = candidates[i];
    const bool may_go =
        !Stays(layer, now) && !layer.is_in_use && now >= RipeAt(layer, rule);
    if (may_go) oldest.push_back(i);
  }
  std::stable_sort(oldest.begin(), oldest.end(), [&](size_t one, size_t other) {
    return candidates[one].last_use < candidates[other].last_use;
  });
  return Enough(candidates, oldest, needed_bytes);
}

RoomPlan PlanRoom(absl::Span<const EvictionCandidate> candidates,
                  int64_t needed_bytes, absl::Time now,
                  const EvictionRule& rule) {
  std::vector<size_t> oldest;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (!Stays(candidates[i], now)) oldest.push_back(i);
  }
  std::stable_sort(oldest.begin(), oldest.end(), [&](size_t one, size_t other) {
    return candidates[one].last_use < candidates[other].last_use;
  });
  RoomPlan plan;
  const std::vector<size_t> in_time = Enough(candidates, oldest, needed_bytes);
  if (in_time.empty()) {
    plan.next = FirstLeaseEnd(candidates, now);
    return plan;
  }
  plan.next = RipeAt(candidates[in_time.back()], rule);
  const auto unripe = std::find_if(oldest.begin(), oldest.end(), [&](size_t i) {
    return now < RipeAt(candidates[i], rule);
  });
  oldest.erase(unripe, oldest.end());
  std::stable_partition(oldest.begin(), oldest.end(),
                        [&](size_t i) { return !candidates[i].is_in_use; });
  plan.victims = Enough(candidates, oldest, needed_bytes);
  return plan;
}

int64_t StayingBytes(absl::Span<const EvictionCandidate> candidates,
                     absl::Time now) {
  int64_t bytes = 0;
  for (const EvictionCandidate& layer : candidates) {
    if (Stays(layer, now)) bytes += layer.bytes;
  }
  return bytes;
}

}  // namespace qgemm
