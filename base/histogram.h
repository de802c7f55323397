// SPDX-License-Identifier: Apache-2.0
//
// A histogram of integers with three significant digits at any scale (HDR
// style). Counting only: the owner knows the unit of a value (nanoseconds,
// rows).

#ifndef QGEMM_BASE_HISTOGRAM_H_
#define QGEMM_BASE_HISTOGRAM_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"

namespace qgemm {

// Log-linear buckets: exact below 2048, then 1024 buckets each octave, so that
// a bucket is at most 1/1024 of its value wide. Values are clamped to
// [0, 2^62]. Not thread-safe.
class Histogram {
 public:
  // Values of one bucket, both ends included.
  struct Bucket {
    int64_t lowest;
    int64_t highest;
    int64_t count;
  };

  Histogram() = default;
  // With room for values up to `max_value`: recording those never allocates.
  explicit Histogram(int64_t max_value);

  void Record(int64_t value) { Record(value, 1); }
  // `count` times; 0 or more.
  void Record(int64_t value, int64_t count);
  // Adds all that `other` has counted.
  void Merge(const Histogram& other);
  // Forgets what was counted and keeps the memory.
  void Clear();

  int64_t count() const { return count_; }
  bool empty() const { return count_ == 0; }
  // Exact; 0 if empty.
  int64_t min() const { return min_; }
  int64_t max() const { return max_; }
  double sum() const { return sum_; }
  double mean() const;
  // To a bucket's width; 0 if empty.
  double standard_deviation() const;

  // The smallest bucket end that at least `percent` (0..100) of the values do
  // not exceed, never above max(). 0 if empty.
  int64_t Percentile(double percent) const;

  // The number of values in buckets that end at or below `value`.
  int64_t CountUpTo(int64_t value) const;

  // The buckets that hold something, in ascending order.
  void ForEachBucket(absl::FunctionRef<void(const Bucket&)> visit) const;

 private:
  std::vector<int64_t> buckets_;  // grown to the largest index seen
  int64_t count_ = 0;
  int64_t min_ = 0;
  int64_t max_ = 0;
  double sum_ = 0;
};

}  // namespace qgemm

#endif  // QGEMM_BASE_HISTOGRAM_H_
