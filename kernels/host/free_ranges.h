// SPDX-License-Identifier: Apache-2.0
//
// Free bytes of one chunk of memory. Decides places only; the memory is
// weights_arena.h's.

#ifndef QGEMM_KERNELS_HOST_FREE_RANGES_H_
#define QGEMM_KERNELS_HOST_FREE_RANGES_H_

#include <cstdint>
#include <map>
#include <optional>

namespace qgemm {

// Places begin, and end, on multiples of that.
inline constexpr int64_t kPlaceStepBytes = 256;

// Not thread-safe.
class FreeRanges {
 public:
  // All of a chunk of that size, a multiple of the step, is free.
  explicit FreeRanges(int64_t size_bytes);

  // Takes the smallest free range that has room, of several the first, and
  // returns the offset of the place. nullopt: there is none.
  std::optional<int64_t> Take(int64_t size_bytes);
  // Takes that place; false if it is not free, not in the chunk, or not on the
  // step.
  bool TakeAt(int64_t offset_bytes, int64_t size_bytes);
  // Gives back a place that was taken, whole.
  void Give(int64_t offset_bytes, int64_t size_bytes);

  bool all_free() const;
  int64_t free_bytes() const { return free_bytes_; }

 private:
  const int64_t size_bytes_;
  int64_t free_bytes_;
  std::map<int64_t, int64_t> free_;  // end by begin; none touch
};

}  // namespace qgemm

#endif  // QGEMM_KERNELS_HOST_FREE_RANGES_H_
