// SPDX-License-Identifier: Apache-2.0
//
// Bytes of the heap whose owners have bounds of their own, so that what is left
// of it can be told from them.

#ifndef QGEMM_BASE_HEAP_SHARE_H_
#define QGEMM_BASE_HEAP_SHARE_H_

#include <atomic>
#include <cstdint>
#include <utility>

namespace qgemm {

// So many bytes while it lives, and as many again for each copy. Thread-safe
// apart from changes of one object.
class HeapShare {
 public:
  // Sum of all that live.
  static int64_t TotalBytes() { return total_.load(std::memory_order_relaxed); }

  HeapShare() = default;
  explicit HeapShare(int64_t bytes) : bytes_(bytes) { Add(bytes_); }
  HeapShare(const HeapShare& other) : HeapShare(other.bytes_) {}
  HeapShare(HeapShare&& other) noexcept
      : bytes_(std::exchange(other.bytes_, 0)) {}
  HeapShare& operator=(HeapShare other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~HeapShare() { Add(-bytes_); }

 private:
  static void Add(int64_t bytes) {
    if (bytes != 0) total_.fetch_add(bytes, std::memory_order_relaxed);
  }

  inline static std::atomic<int64_t> total_{0};

  int64_t bytes_ = 0;
};

}  // namespace qgemm

#endif  // QGEMM_BASE_HEAP_SHARE_H_
