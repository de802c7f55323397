// SPDX-License-Identifier: Apache-2.0

#include "server/weights/eviction.h"

#include <algorithm>

namespace qgemm {
namespace {

bool MayGo(const EvictionCandidate& layer, absl::Time now,
           const EvictionRule& rule) {
  return layer.is_on_disk && !layer.is_pinned && !layer.is_in_use &&
         now >= layer.leased_until &&
         now - layer.last_use >= rule.min_residency;
}

}  // namespace

std::vector<size_t> ChooseVictims(
    absl::Span<const EvictionCandidate> candidates, int64_t needed_bytes,
    absl::Time now, const EvictionRule& rule) {
  std::vector<size_t> oldest;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (MayGo(candidates[i], now, rule)) oldest.push_back(i);
  }
  std::stable_sort(oldest.begin(), oldest.end(), [&](size_t one, size_t other) {
    return candidates[one].last_use < candidates[other].last_use;
  });
  int64_t freed_bytes = 0;
  std::vector<size_t> victims;
  for (const size_t i : oldest) {
    if (freed_bytes >= needed_bytes) break;
    victims.push_back(i);
    freed_bytes += candidates[i].bytes;
  }
  if (freed_bytes < needed_bytes) victims.clear();
  return victims;
}

}  // namespace qgemm
