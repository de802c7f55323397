// SPDX-License-Identifier: Apache-2.0
//
// Objects that are taken and given back, so that a steady state allocates
// none.

#ifndef QGEMM_SERVER_SCHEDULING_OBJECT_POOL_H_
#define QGEMM_SERVER_SCHEDULING_OBJECT_POOL_H_

#include <deque>
#include <vector>

namespace qgemm {

// Not thread-safe. Owns its objects, as many as were ever out at a time.
template <typename T>
class ObjectPool {
 public:
  // In its default state.
  T* Take() {
    if (free_.empty()) return &all_.emplace_back();
    T* const object = free_.back();
    free_.pop_back();
    return object;
  }

  void Return(T* object) {
    *object = T();
    free_.push_back(object);
  }

 private:
  std::deque<T> all_;
  std::vector<T*> free_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_SCHEDULING_OBJECT_POOL_H_
