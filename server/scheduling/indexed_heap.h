// SPDX-License-Identifier: Apache-2.0
//
// Binary heap whose elements know their positions, so that each can leave it or
// move in it. The children of index i are at 2 i + 1 and 2 i + 2.

#ifndef QGEMM_SERVER_SCHEDULING_INDEXED_HEAP_H_
#define QGEMM_SERVER_SCHEDULING_INDEXED_HEAP_H_

#include <cstdint>
#include <utility>
#include <vector>

namespace qgemm {

// Not thread-safe; borrows its elements. `kIndex` is the element's position, -1
// outside of the heap; Before()(a, b) is true if `a` comes before `b`.
template <typename T, int64_t T::*kIndex, typename Before>
class IndexedHeap {
 public:
  bool empty() const { return heap_.empty(); }
  int64_t size() const { return static_cast<int64_t>(heap_.size()); }
  // Null if empty.
  T* first() const { return heap_.empty() ? nullptr : heap_.front(); }

  void Push(T* element) {
    heap_.push_back(element);
    SiftUp(element, size() - 1);
  }

  // Ignores an element that is not in the heap, as Moved does.
  void Remove(T* element) {
    const int64_t index = std::exchange(element->*kIndex, -1);
    if (index < 0) return;
    T* const last = heap_.back();
    heap_.pop_back();
    if (last == element) return;
    SiftDown(last, index);
    SiftUp(last, last->*kIndex);
  }

  // Must follow a change of what the element is ordered by.
  void Moved(T* element) {
    if (element->*kIndex < 0) return;
    SiftDown(element, element->*kIndex);
    SiftUp(element, element->*kIndex);
  }

  // Calls visit(element) with every element for which include(*element) holds,
  // in any order. An element that is not included must come before none that
  // is.
  template <typename Include, typename Visit>
  void VisitFirst(const Include& include, const Visit& visit) const {
    VisitFirst(0, include, visit);
  }

 private:
  template <typename Include, typename Visit>
  void VisitFirst(int64_t index, const Include& include,
                  const Visit& visit) const {
    if (index >= size() || !include(*heap_[index])) return;
    visit(heap_[index]);
    VisitFirst(2 * index + 1, include, visit);
    VisitFirst(2 * index + 2, include, visit);
  }

  void Put(T* element, int64_t index) {
    heap_[index] = element;
    element->*kIndex = index;
  }

  void SiftUp(T* element, int64_t index) {
    while (index > 0 && Before()(*element, *heap_[(index - 1) / 2])) {
      Put(heap_[(index - 1) / 2], index);
      index = (index - 1) / 2;
    }
    Put(element, index);
  }

  void SiftDown(T* element, int64_t index) {
    while (2 * index + 1 < size()) {
      int64_t child = 2 * index + 1;
      if (child + 1 < size() && Before()(*heap_[child + 1], *heap_[child])) {
        ++child;
      }
      if (!Before()(*heap_[child], *element)) break;
      Put(heap_[child], index);
      index = child;
    }
    Put(element, index);
  }

  std::vector<T*> heap_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_SCHEDULING_INDEXED_HEAP_H_
