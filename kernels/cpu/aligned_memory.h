// SPDX-License-Identifier: Apache-2.0
//
// Owned, zeroed memory that the vector units like: aligned, on huge pages
// where it is large, and back with the operating system once it is dropped.

#ifndef QGEMM_KERNELS_CPU_ALIGNED_MEMORY_H_
#define QGEMM_KERNELS_CPU_ALIGNED_MEMORY_H_

#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "base/heap_share.h"

namespace qgemm::cpu {

// Move-only; null when default-constructed or moved from.
class AlignedMemory {
 public:
  // The bytes that Allocate will hold for a request of `size_bytes`.
  static int64_t HeldBytes(int64_t size_bytes);

  // Zeroed, aligned to 64 bytes. RESOURCE_EXHAUSTED, never an exception, if
  // the system has none.
  static absl::StatusOr<AlignedMemory> Allocate(int64_t size_bytes);

  AlignedMemory() = default;
  AlignedMemory(AlignedMemory&& other) noexcept { *this = std::move(other); }
  AlignedMemory& operator=(AlignedMemory&& other) noexcept;
  ~AlignedMemory();

  uint8_t* data() const { return data_; }
  int64_t held_bytes() const { return held_bytes_; }
  int64_t size_bytes() const { return held_bytes_; }

 private:
  AlignedMemory(uint8_t* data, int64_t held_bytes);

  uint8_t* data_ = nullptr;
  int64_t held_bytes_ = 0;
  HeapShare heap_share_;
};

}  // namespace qgemm::cpu

#endif  // QGEMM_KERNELS_CPU_ALIGNED_MEMORY_H_
