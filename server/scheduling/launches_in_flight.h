// SPDX-License-Identifier: Apache-2.0
//
// Launches that have begun and not ended, each at a place of its own.

#ifndef QGEMM_SERVER_SCHEDULING_LAUNCHES_IN_FLIGHT_H_
#define QGEMM_SERVER_SCHEDULING_LAUNCHES_IN_FLIGHT_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "server/scheduling/batching_policy.h"

namespace qgemm {

// Not thread-safe.
class LaunchesInFlight {
 public:
  struct Launch {
    const void* queue = nullptr;  // compared, never read
    LaunchKind kind = LaunchKind::kMerged;
    int64_t rows = 0;
  };

  explicit LaunchesInFlight(int places) : places_(std::max(places, 0)) {}

  int count() const { return count_; }
  bool full() const { return count_ == static_cast<int>(places_.size()); }
  int chunks() const { return chunks_; }

  // Rows of the queue's largest launch; 0 without one.
  int64_t MostRowsOf(const void* queue) const {
    int64_t rows = 0;
    for (const Launch& launch : places_) {
      if (launch.queue == queue) rows = std::max(rows, launch.rows);
    }
    return rows;
  }

  // Returns the launch's place, which is its own until End; not if full().
  int Begin(const Launch& launch) {
    int place = 0;
    while (places_[place].queue != nullptr) ++place;
    places_[place] = launch;
    Count(launch, 1);
    return place;
  }

  void End(int place) {
    Count(places_[place], -1);
    places_[place] = {};
  }

 private:
  void Count(const Launch& launch, int change) {
    count_ += change;
    if (launch.kind == LaunchKind::kChunk) chunks_ += change;
  }

  std::vector<Launch> places_;  // free ones have no queue
  int count_ = 0;
  int chunks_ = 0;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_SCHEDULING_LAUNCHES_IN_FLIGHT_H_
