// SPDX-License-Identifier: Apache-2.0
//
// Children of place i are at 2 i + 1 and 2 i + 2.

#include "server/scheduling/deadline_heap.h"

#include <utility>

namespace qgemm {

void DeadlineHeap::Push(WaitingRequest* waiting) {
  if (waiting->request->deadline == absl::InfiniteFuture()) return;
  heap_.push_back(waiting);
  Raise(waiting, static_cast<int64_t>(heap_.size()) - 1);
}

void DeadlineHeap::Remove(WaitingRequest* waiting) {
  const int64_t place = std::exchange(waiting->heap_place, -1);
  if (place < 0) return;
  WaitingRequest* const last = heap_.back();
  heap_.pop_back();
  if (last == waiting) return;
  Sink(last, place);
  Raise(last, last->heap_place);
}

void DeadlineHeap::Put(WaitingRequest* waiting, int64_t place) {
  heap_[place] = waiting;
  waiting->heap_place = place;
}

void DeadlineHeap::Raise(WaitingRequest* waiting, int64_t place) {
  while (place > 0 &&
         waiting->request->deadline < DeadlineAt((place - 1) / 2)) {
    Put(heap_[(place - 1) / 2], place);
    place = (place - 1) / 2;
  }
  Put(waiting, place);
}

void DeadlineHeap::Sink(WaitingRequest* waiting, int64_t place) {
  const auto size = static_cast<int64_t>(heap_.size());
  while (2 * place + 1 < size) {
    int64_t child = 2 * place + 1;
    if (child + 1 < size && DeadlineAt(child + 1) < DeadlineAt(child)) ++child;
    if (waiting->request->deadline <= DeadlineAt(child)) break;
    Put(heap_[child], place);
    place = child;
  }
  Put(waiting, place);
}

}  // namespace qgemm
