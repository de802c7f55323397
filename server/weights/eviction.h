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
  bool is_in_use = false;   // by a request or a program: nothing comes back
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

}  // namespace qgemm

#endif  // QGEMM_SERVER_WEIGHTS_EVICTION_H_
