// SPDX-License-Identifier: Apache-2.0
//
// Divides a range of bytes among its users: offsets alone, no memory.

#ifndef QGEMM_CLIENT_RANGE_ALLOCATOR_H_
#define QGEMM_CLIENT_RANGE_ALLOCATOR_H_

#include <cstdint>
#include <map>
#include <optional>

namespace qgemm {

// First fit by address; neighbours that are free become one. Offsets and sizes
// are multiples of `granularity`. Used by one thread at a time.
class RangeAllocator {
 public:
  // The range [0, bytes), of which a rest below `granularity` is never given.
  RangeAllocator(int64_t bytes, int64_t granularity);

  // The offset of `bytes` bytes, 1 or more; nullopt if no free range has them.
  std::optional<int64_t> Allocate(int64_t bytes);

  // Gives back what Allocate(bytes) returned as `offset`.
  void Free(int64_t offset, int64_t bytes);

  int64_t free_bytes() const { return free_bytes_; }
  // The largest that Allocate gives now.
  int64_t largest_free() const;

 private:
  const int64_t granularity_;
  int64_t free_bytes_;
  std::map<int64_t, int64_t> free_;  // sizes of free ranges by offset
};

}  // namespace qgemm

#endif  // QGEMM_CLIENT_RANGE_ALLOCATOR_H_
