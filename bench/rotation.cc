// SPDX-License-Identifier: Apache-2.0
//
// A launch on every copy, unless that takes too long.

#include "bench/rotation.h"

#include <algorithm>

#include "base/checked_math.h"

namespace qgemm {
namespace {

constexpr int64_t kMinCopies = 20;
// Enough for copies of the smallest layers to make 400 MB.
constexpr int64_t kMaxCopies = 1024;

}  // namespace

int64_t CopiesFor(int64_t copy_bytes, int64_t total_bytes) {
  return std::clamp(CeilDiv(total_bytes, copy_bytes), kMinCopies, kMaxCopies);
}

int64_t LeastLaunches(int64_t copy_bytes, int64_t cache_bytes, int64_t copies) {
  return std::clamp<int64_t>(CeilDiv(2 * cache_bytes, copy_bytes), 1, copies);
}

}  // namespace qgemm
