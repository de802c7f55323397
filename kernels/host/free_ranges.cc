// SPDX-License-Identifier: Apache-2.0
//
// Ranges are kept merged, so that a place is in one of them or not free.

#include <iterator>
#include <limits>
#include <map>
#include <optional>

#include "base/check.h"
#include "base/checked_math.h"
#include "kernels/host/weights_arena.h"

namespace qgemm {

FreeRanges::FreeRanges(int64_t size_bytes)
    : size_bytes_(size_bytes), free_bytes_(size_bytes) {
  CHECK(size_bytes > 0 && size_bytes % kPlaceStepBytes == 0);
  free_[0] = size_bytes;
}

std::optional<int64_t> FreeRanges::Take(int64_t size_bytes) {
  if (size_bytes <= 0 || size_bytes > size_bytes_) return std::nullopt;
  const int64_t needed_bytes = RoundUp(size_bytes, kPlaceStepBytes);
  int64_t best_bytes = std::numeric_limits<int64_t>::max();
  std::optional<int64_t> best;
  for (const auto& [begin, end] : free_) {
    const int64_t bytes = end - begin;
    if (bytes < needed_bytes || bytes >= best_bytes) continue;
    best = begin;
    best_bytes = bytes;
  }
  if (best.has_value()) CHECK(TakeAt(*best, size_bytes));
  return best;
}

bool FreeRanges::TakeAt(int64_t offset_bytes, int64_t size_bytes) {
  if (offset_bytes < 0 || offset_bytes % kPlaceStepBytes != 0 ||
      size_bytes <= 0 || size_bytes > size_bytes_ ||
      offset_bytes > size_bytes_ - size_bytes) {
    return false;
  }
  const int64_t end = offset_bytes + RoundUp(size_bytes, kPlaceStepBytes);
  auto range = free_.upper_bound(offset_bytes);
  if (range == free_.begin()) return false;
  --range;
  const auto [range_begin, range_end] = *range;
  if (end > range_end) return false;
  free_.erase(range);
  if (range_begin < offset_bytes) free_[range_begin] = offset_bytes;
  if (end < range_end) free_[end] = range_end;
  free_bytes_ -= end - offset_bytes;
  return true;
}

void FreeRanges::Give(int64_t offset_bytes, int64_t size_bytes) {
  int64_t begin = offset_bytes;
  int64_t end = offset_bytes + RoundUp(size_bytes, kPlaceStepBytes);
  free_bytes_ += end - begin;
  auto next = free_.lower_bound(begin);
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    CHECK_LE(before->second, begin);
    if (before->second == begin) {
      begin = before->first;
      free_.erase(before);
    }
  }
  if (next != free_.end()) {
    CHECK_GE(next->first, end);
    if (next->first == end) {
      end = next->second;
      free_.erase(next);
    }
  }
  free_[begin] = end;
}

bool FreeRanges::all_free() const { return free_bytes_ == size_bytes_; }

}  // namespace qgemm
