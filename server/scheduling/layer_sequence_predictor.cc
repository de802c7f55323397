// SPDX-License-Identifier: Apache-2.0
//
// A walk along predicted successors ends at the first occupied layer.

#include "server/scheduling/layer_sequence_predictor.h"

#include <algorithm>

namespace qgemm {

void LayerSequencePredictor::Observe(SequenceLayer* from, SequenceLayer* to,
                                     absl::Time now) {
  ++to->clients;
  to->last_arrival = now;
  if (from == nullptr) return;
  --from->clients;
  const bool hit = from->successor == to;
  hit_share_ += ((hit ? 1.0 : 0.0) - hit_share_) / kMemory;
  if (hit) {
    from->confidence = std::min(from->confidence + 1, kMaxConfidence);
  } else if (--from->confidence <= 0) {
    from->successor = to;
    from->confidence = 1;
  }
}

void LayerSequencePredictor::BeginDecision(absl::Time now) {
  steps_left_ = kStepsPerDecision;
  present_since_ = now - kPresence;
}

std::optional<int64_t> LayerSequencePredictor::LayersBehind(
    const SequenceLayer& layer) {
  int64_t layers = 1;
  for (const SequenceLayer* ahead = layer.successor;
       ahead != nullptr && ahead != &layer && steps_left_ > 0;
       ahead = ahead->successor, ++layers) {
    --steps_left_;
    if (IsOccupied(*ahead)) return layers;
  }
  return std::nullopt;
}

}  // namespace qgemm
