// SPDX-License-Identifier: Apache-2.0
//
// A histogram of durations with three significant digits at any scale, small
// enough for one a thread. Counting only; what a latency is, the caller says.

#ifndef QGEMM_CLIENT_LOADTEST_LATENCY_RECORDER_H_
#define QGEMM_CLIENT_LOADTEST_LATENCY_RECORDER_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"

namespace qgemm {

// Log-linear buckets over nanoseconds: exact below 2048 ns, then 1024 buckets
// each octave, so that a bucket is at most 1/1024 of its value wide. Durations
// are clamped to [0, about 146 years]. Not thread-safe.
class LatencyRecorder {
 public:
  void Record(absl::Duration latency);
  // Adds all that `other` has counted.
  void Merge(const LatencyRecorder& other);

  int64_t count() const { return count_; }
  // Exact; zero if nothing was recorded.
  absl::Duration min() const;
  absl::Duration max() const;
  absl::Duration mean() const;

  // The smallest bucket bound that at least `percent` (0..100) of the
  // durations do not exceed, never above max(). Zero if nothing was recorded.
  absl::Duration Percentile(double percent) const;

 private:
  std::vector<int64_t> buckets_;  // grown to the largest index seen
  int64_t count_ = 0;
  int64_t min_ns_ = 0;
  int64_t max_ns_ = 0;
  double sum_ns_ = 0;
};

}  // namespace qgemm

#endif  // QGEMM_CLIENT_LOADTEST_LATENCY_RECORDER_H_
