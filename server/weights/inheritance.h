// SPDX-License-Identifier: Apache-2.0
//
// Layers that the last server left in memory, for a store that has restored
// their names from the disk.

#ifndef QGEMM_SERVER_WEIGHTS_INHERITANCE_H_
#define QGEMM_SERVER_WEIGHTS_INHERITANCE_H_

#include <cstdint>

#include "absl/time/time.h"
#include "server/keep/kept_layers.h"
#include "server/weights/weight_store.h"

namespace qgemm {

struct InheritedLayers {
  int64_t layers = 0;
  int64_t bytes = 0;
  int64_t dropped_layers = 0;  // of sound records
  absl::Duration took;
};

// Makes the layers resident whose names the store has and whose bytes are what
// they were, and drops the others. `threads` of them read at one time. Once,
// before the store is used.
InheritedLayers InheritLayers(int threads, KeptLayers* kept,
                              WeightStore* store);

}  // namespace qgemm

#endif  // QGEMM_SERVER_WEIGHTS_INHERITANCE_H_
