// SPDX-License-Identifier: Apache-2.0
//
// The waiting requests of a queue that have a deadline, the earliest first.

#ifndef QGEMM_SERVER_SCHEDULING_DEADLINE_HEAP_H_
#define QGEMM_SERVER_SCHEDULING_DEADLINE_HEAP_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "server/scheduling/waiting_request.h"

namespace qgemm {

// A binary heap whose elements know their places. Not thread-safe; borrows its
// elements.
class DeadlineHeap {
 public:
  // Null if empty.
  WaitingRequest* first() const {
    return heap_.empty() ? nullptr : heap_.front();
  }
  // InfiniteFuture if empty.
  absl::Time earliest() const {
    return heap_.empty() ? absl::InfiniteFuture() : DeadlineAt(0);
  }

  // Passes over a request without a deadline.
  void Push(WaitingRequest* waiting);
  // Nothing if it is not there.
  void Remove(WaitingRequest* waiting);

 private:
  absl::Time DeadlineAt(int64_t place) const {
    return heap_[place]->request->deadline;
  }
  void Put(WaitingRequest* waiting, int64_t place);
  void Raise(WaitingRequest* waiting, int64_t place);
  void Sink(WaitingRequest* waiting, int64_t place);

  std::vector<WaitingRequest*> heap_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_SCHEDULING_DEADLINE_HEAP_H_
