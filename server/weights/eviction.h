// SPDX-License-Identifier: Apache-2.0
//
// Decides which layers leave memory for others. Decisions only: the layers are
// the weight store's.

#ifndef QGEMM_SERVER_WEIGHTS_EVICTION_H_
#define QGEMM_SERVER_WEIGHTS_EVICTION_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"

namespace qgemm {

// A layer in memory.
struct EvictionCandidate {
  int64_t bytes = 0;  // of the budget that it gives back
  // Last request that named it; the infinite past if none has.
  absl::Time last_use = absl::InfinitePast();
  // A client has asked for it to stay until then.
  absl::Time leased_until = absl::InfinitePast();
  bool is_pinned = false;
  bool is_held = false;     // by a program, until that is unloaded
  bool is_in_use = false;   // nothing comes back before its last user is done
  bool is_on_disk = false;  // it can come back
};

struct EvictionRule {
  // A layer that was used less long ago stays: it would be brought back at
  // once, at the cost of another that is in use.
  absl::Duration min_residency = absl::Seconds(1);
};

// Returns the indices of the layers to drop so that at least `needed_bytes`
// come back, those used longest ago first; none if all that may go are too few.
std::vector<size_t> ChooseVictims(
    absl::Span<const EvictionCandidate> candidates, int64_t needed_bytes,
    absl::Time now, const EvictionRule& rule);

// Way to room for one that can wait.
struct RoomPlan {
  // Layers to drop now. Bytes of those in use come back with their last user.
  // Empty if all that may go now are too few.
  std::vector<size_t> victims;
  // The time when enough will have been left alone for long enough, or a lease
  // ends; the infinite future if that is never.
  absl::Time next = absl::InfiniteFuture();
};

// Layers in use may go too, after all others.
RoomPlan PlanRoom(absl::Span<const EvictionCandidate> candidates,
                  int64_t needed_bytes, absl::Time now,
                  const EvictionRule& rule);

// Bytes of the layers that stay however long one waits: what is pinned, leased,
// held or nowhere else.
int64_t StayingBytes(absl::Span<const EvictionCandidate> candidates,
                     absl::Time now);

}  // namespace qgemm

#endif  // QGEMM_SERVER_WEIGHTS_EVICTION_H_
