// SPDX-License-Identifier: Apache-2.0
//
// The queue of those that wait for room in the weights budget, and the bell
// that wakes them. Which room there is, is the weight store's. The first in the
// queue has its turn, and holds others back for a time; after that those behind
// it have theirs too.

#ifndef QGEMM_SERVER_WEIGHTS_ROOM_QUEUE_H_
#define QGEMM_SERVER_WEIGHTS_ROOM_QUEUE_H_

#include <cstdint>
#include <map>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/mutex.h"

namespace qgemm {

// Time for which one that has its turn holds back those that came after it.
inline constexpr absl::Duration kTurnPatience = absl::Seconds(30);

// Thread-safe. No function calls anything else, so that it may be rung under
// any lock.
class RoomQueue {
 public:
  // A place at the end of the queue until it goes. Must not outlive the queue.
  class Place {
   public:
    explicit Place(RoomQueue* queue);
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    ~Place();

    // True once all that came before have left, or had their turn for
    // kTurnPatience; the turn of this place begins then.
    bool HasTurn(absl::Time now);

   private:
    RoomQueue* const queue_;
    const uint64_t number_;
  };

  // Tells all that wait to look again.
  void Ring();

  // Rings so far: taken before a look, it makes a wait miss none after that.
  uint64_t rings() const;

  // Waits until there have been more than `seen`, `at_most` so long.
  void AwaitRing(uint64_t seen, absl::Duration at_most);

  bool is_empty() const;

 private:
  uint64_t Enter();
  void Leave(uint64_t number);

  mutable Mutex mutex_;
  CondVar rung_;
  uint64_t rings_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t next_number_ ABSL_GUARDED_BY(mutex_) = 0;
  // The places, and when their turns began: the infinite future before.
  std::map<uint64_t, absl::Time> waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_WEIGHTS_ROOM_QUEUE_H_
