// SPDX-License-Identifier: Apache-2.0

#include "client/range_allocator.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "base/checked_math.h"

namespace qgemm {

RangeAllocator::RangeAllocator(int64_t bytes, int64_t granularity)
    : granularity_(granularity),
      free_bytes_(bytes / granularity * granularity) {
  if (free_bytes_ > 0) free_.emplace(0, free_bytes_);
}

std::optional<int64_t> RangeAllocator::Allocate(int64_t bytes) {
  CHECK(bytes > 0) << bytes;
  if (bytes > free_bytes_) return std::nullopt;
  bytes = RoundUp(bytes, granularity_);
  for (auto range = free_.begin(); range != free_.end(); ++range) {
    const auto [offset, size] = *range;
    if (size < bytes) continue;
    const auto next = free_.erase(range);
    if (size > bytes) free_.emplace_hint(next, offset + bytes, size - bytes);
    free_bytes_ -= bytes;
    return offset;
  }
  return std::nullopt;
}

void RangeAllocator::Free(int64_t offset, int64_t bytes) {
  bytes = RoundUp(bytes, granularity_);
  free_bytes_ += bytes;
  const auto next = free_.lower_bound(offset);
  CHECK(next == free_.end() || offset + bytes <= next->first) << offset;
  if (next != free_.end() && next->first == offset + bytes) {
    bytes += next->second;
    free_.erase(next);
  }
  const auto after = free_.lower_bound(offset);
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    CHECK(before->first + before->second <= offset) << offset;
    if (before->first + before->second == offset) {
      before->second += bytes;
      return;
    }
  }
  free_.emplace_hint(after, offset, bytes);
}

int64_t RangeAllocator::largest_free() const {
  int64_t largest = 0;
  for (const auto& [offset, size] : free_) largest = std::max(largest, size);
  return largest;
}

}  // namespace qgemm
