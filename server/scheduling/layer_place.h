// SPDX-License-Identifier: Apache-2.0
//
// A layer as a place where clients are on their way through a model.

#ifndef QGEMM_SERVER_SCHEDULING_LAYER_PLACE_H_
#define QGEMM_SERVER_SCHEDULING_LAYER_PLACE_H_

#include <cstdint>

#include "absl/time/time.h"

namespace qgemm {

struct LayerPlace {
  // Where clients are expected next; null if that is not known.
  LayerPlace* successor = nullptr;
  int confidence = 0;
  // Whose last request went here, and when the last one came.
  int64_t clients = 0;
  absl::Time last_arrival = absl::InfinitePast();
  bool has_waiting = false;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_SCHEDULING_LAYER_PLACE_H_
