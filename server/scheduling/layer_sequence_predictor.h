// SPDX-License-Identifier: Apache-2.0
//
// Predicts which layer a client asks for next, learned from what clients did:
// those that run a model walk its layers in one order. The decision that uses
// it, BatchOrder::kChase, is in batching_policy.h.

#ifndef QGEMM_SERVER_SCHEDULING_LAYER_SEQUENCE_PREDICTOR_H_
#define QGEMM_SERVER_SCHEDULING_LAYER_SEQUENCE_PREDICTOR_H_

#include <cstdint>
#include <optional>

#include "absl/time/time.h"

namespace qgemm {

// A layer in the order in which clients walk through a model.
struct SequenceLayer {
  // Predicted next layer; null if unknown.
  SequenceLayer* successor = nullptr;
  int confidence = 0;
  // Clients whose last request went here, and when the last one came.
  int64_t clients = 0;
  absl::Time last_arrival = absl::InfinitePast();
  bool has_waiting = false;
};

// Not thread-safe.
class LayerSequencePredictor {
 public:
  // Records that a client asks for `to` after `from`, or for the first time if
  // that is null.
  void Observe(SequenceLayer* from, SequenceLayer* to, absl::Time now);

  // True if most recent predictions were right.
  bool trusted() const { return hit_share_ >= kTrustedShare; }

  // Must be called before the LayersBehind of one decision.
  void BeginDecision(absl::Time now);
  // Number of layers by which clients at `layer` are behind others, who wait or
  // were seen recently; nullopt if unknown.
  std::optional<int64_t> LayersBehind(const SequenceLayer& layer);

 private:
  static constexpr double kTrustedShare = 0.7;
  // Number of observations that the share is taken over, roughly.
  static constexpr double kMemory = 256;
  // Right predictions that are outweighed by as many wrong ones.
  static constexpr int kMaxConfidence = 4;
  // Bounds a decision to a few microseconds, whatever clients do.
  static constexpr int64_t kStepsPerDecision = 4096;
  // A client that has asked for nothing so long counts as gone.
  static constexpr absl::Duration kPresence = absl::Milliseconds(10);

  bool IsOccupied(const SequenceLayer& layer) const {
    return layer.has_waiting ||
           (layer.clients > 0 && layer.last_arrival >= present_since_);
  }

  double hit_share_ = 0;
  int64_t steps_left_ = 0;
  absl::Time present_since_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_SCHEDULING_LAYER_SEQUENCE_PREDICTOR_H_
