// SPDX-License-Identifier: Apache-2.0
//
// Objects that one thread fills and others give back.

#ifndef QGEMM_BASE_RECYCLER_H_
#define QGEMM_BASE_RECYCLER_H_

#include <deque>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "base/prefetch.h"

namespace qgemm {

// Objects whose memory, and whatever they hold, is freed by the thread that
// took it: an allocator and reference counts are slow where one thread takes
// and another one frees. T is default-constructible and has Clear(), which may
// be repeated, and PrefetchOwned(), which asks for the memory beside the object
// that Clear writes. Owns all objects, as many as were ever out at a time.
template <typename T>
class Recycler {
 public:
  Recycler() = default;
  Recycler(const Recycler&) = delete;
  Recycler& operator=(const Recycler&) = delete;

  // Returns an object that is clear. By one thread at a time.
  T* Take() {
    if (clear_.empty()) {
      {
        MutexLock lock(&mutex_);
        clear_.swap(returned_);
      }
      ClearAll(clear_);
    }
    if (clear_.empty()) return &all_.emplace_back();
    T* const object = clear_.back();
    clear_.pop_back();
    return object;
  }

  // Gives an object back as it is. Thread-safe.
  void Return(T* object) {
    MutexLock lock(&mutex_);
    returned_.push_back(object);
  }

  // Clears what was given back, for a taker that may not come. Thread-safe.
  void Collect() {
    std::vector<T*> collected;
    {
      MutexLock lock(&mutex_);
      collected.swap(returned_);
    }
    ClearAll(collected);
    MutexLock lock(&mutex_);
    returned_.insert(returned_.end(), collected.begin(), collected.end());
  }

 private:
  static void ClearAll(const std::vector<T*>& objects) {
    for (const T* const object : objects) PrefetchToWrite(object);
    for (const T* const object : objects) object->PrefetchOwned();
    for (T* const object : objects) object->Clear();
  }

  // The taker's.
  std::deque<T> all_;
  std::vector<T*> clear_;

  Mutex mutex_;
  std::vector<T*> returned_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace qgemm

#endif  // QGEMM_BASE_RECYCLER_H_
