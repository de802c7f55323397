// SPDX-License-Identifier: Apache-2.0
//
// Which layer a client asks for after which, learned from what clients did:
// those that run a model walk its layers in one order. What is made of it is
// decided in batching_policy.h.

#ifndef QGEMM_SERVER_SCHEDULING_SUCCESSORS_H_
#define QGEMM_SERVER_SCHEDULING_SUCCESSORS_H_

#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "server/scheduling/layer_place.h"

namespace qgemm {

// Not thread-safe.
class Successors {
 public:
  // A client asks for `to` after `from`, or for the first time if that is
  // null.
  void Observe(LayerPlace* from, LayerPlace* to, absl::Time now);

  // Whether clients do what is expected of them, most of the time of late.
  bool trusted() const { return hit_share_ >= kTrustedShare; }

  // To be called before the layers of one decision are looked at.
  void BeginDecision(absl::Time now);
  // How many layers clients at `place` are behind others, who wait or were
  // seen of late; nothing if that is not known.
  std::optional<int64_t> LayersBehind(const LayerPlace& place);

 private:
  static constexpr double kTrustedShare = 0.7;
  // The share is over about as many observations.
  static constexpr double kMemory = 256;
  // A wrong guess costs as many right ones as made it.
  static constexpr int kMaxConfidence = 4;
  // Keeps a decision short, whatever clients do: a few microseconds.
  static constexpr int64_t kStepsPerDecision = 4096;
  // A client that has not asked for so long is not on its way any more.
  static constexpr absl::Duration kPresence = absl::Milliseconds(10);

  bool IsOccupied(const LayerPlace& place) const {
    return place.has_waiting ||
           (place.clients > 0 && place.last_arrival >= present_since_);
  }

  double hit_share_ = 0;
  int64_t steps_left_ = 0;
  absl::Time present_since_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_SCHEDULING_SUCCESSORS_H_
