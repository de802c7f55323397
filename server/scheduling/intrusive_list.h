// SPDX-License-Identifier: Apache-2.0
//
// A doubly linked list through members of its elements: elements may be in
// several lists, and no list allocates. Elements are owned elsewhere.

#ifndef QGEMM_SERVER_SCHEDULING_INTRUSIVE_LIST_H_
#define QGEMM_SERVER_SCHEDULING_INTRUSIVE_LIST_H_

namespace qgemm {

template <typename T>
struct ListLinks {
  T* previous = nullptr;
  T* next = nullptr;
};

// Not thread-safe. An element is in at most one list by the same links.
template <typename T, ListLinks<T> T::*kLinks>
class IntrusiveList {
 public:
  bool empty() const { return front_ == nullptr; }
  // Null if the list is empty.
  T* front() const { return front_; }
  static T* Next(const T* element) { return (element->*kLinks).next; }

  void PushBack(T* element) { InsertBefore(nullptr, element); }
  void PushFront(T* element) { InsertBefore(front_, element); }

  // Before `position`, which is in the list, or at the end if it is null.
  void InsertBefore(T* position, T* element) {
    T* const previous =
        position == nullptr ? back_ : (position->*kLinks).previous;
    element->*kLinks = {previous, position};
    (previous == nullptr ? front_ : (previous->*kLinks).next) = element;
    (position == nullptr ? back_ : (position->*kLinks).previous) = element;
  }

  void Remove(T* element) {
    const ListLinks<T> links = element->*kLinks;
    (links.previous == nullptr ? front_ : (links.previous->*kLinks).next) =
        links.next;
    (links.next == nullptr ? back_ : (links.next->*kLinks).previous) =
        links.previous;
    element->*kLinks = {};
  }

 private:
  T* front_ = nullptr;
  T* back_ = nullptr;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_SCHEDULING_INTRUSIVE_LIST_H_
