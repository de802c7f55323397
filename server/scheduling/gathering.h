// SPDX-License-Identifier: Apache-2.0
//
// Decides if a launch waits for requests that are about to come. Clients that
// ask again once they are answered share launches by halves otherwise: while
// those of one launch are answered, the others' launch begins.

#ifndef QGEMM_SERVER_SCHEDULING_GATHERING_H_
#define QGEMM_SERVER_SCHEDULING_GATHERING_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"

namespace qgemm {

class FairQueue;

// Watches merged launches and how soon their clients ask again. A launch of the
// queue of the last one waits for as many requests as that one had, but not
// longer than a quarter of its time, and only while three quarters of them last
// came within that. Assumes that launches end in the order in which they
// began. Not thread-safe. Compares queues, never reads them.
class Gathering {
 public:
  // Records the beginning of a launch of `requests` requests.
  void Began(const FairQueue* queue, int64_t requests, absl::Time now);
  // Records the end of the launch that has run longest; one must be running.
  void Ended(absl::Time now);
  void Arrived(const FairQueue* queue, absl::Time arrival);

  // Returns until when a launch of the queue waits: InfinitePast if it need not
  // wait, InfiniteFuture if it waits for the end of one that is running.
  absl::Time WaitsUntil(const FairQueue* queue) const;

 private:
  struct Launch {
    const FairQueue* queue = nullptr;
    int64_t requests = 0;
    absl::Time start;
  };

  bool IsRunning(const FairQueue* queue) const;
  // True if most of the last launch's clients have asked again in time.
  bool CameBack() const;

  std::vector<Launch> running_;  // few, the one that began first in front
  // The last one that ended, and those of its queue's requests that came then.
  Launch last_;
  absl::Time end_ = absl::InfinitePast();
  absl::Time patience_ends_ = absl::InfinitePast();
  int64_t arrived_ = 0;
  int64_t arrived_in_time_ = 0;
  // The clients of the last launch but one of this queue came back; of those
  // launches that had a few.
  bool pays_ = false;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_SCHEDULING_GATHERING_H_
