// SPDX-License-Identifier: Apache-2.0
//
// The bucket arithmetic of LatencyRecorder.

#include "client/loadtest/latency_recorder.h"

#include <algorithm>
#include <cmath>

namespace qgemm {
namespace {

// Values below 2^kLinearBits have a bucket each; above, a value keeps its
// kLinearBits highest bits.
constexpr int kLinearBits = 11;
constexpr int64_t kHalf = int64_t{1} << (kLinearBits - 1);
constexpr int64_t kMaxNs = int64_t{1} << 62;

int ShiftOf(int64_t ns) {
  const int width = 64 - __builtin_clzll(static_cast<uint64_t>(ns) | 1);
  return std::max(0, width - kLinearBits);
}

int64_t BucketOf(int64_t ns) {
  const int shift = ShiftOf(ns);
  return shift * kHalf + (ns >> shift);
}

// The largest value that falls into the bucket.
int64_t UpperBoundOf(int64_t bucket) {
  if (bucket < 2 * kHalf) return bucket;
  const int64_t shift = bucket / kHalf - 1;
  const int64_t mantissa = bucket - shift * kHalf;
  return ((mantissa + 1) << shift) - 1;
}

}  // namespace

void LatencyRecorder::Record(absl::Duration latency) {
  const int64_t ns =
      std::clamp<int64_t>(absl::ToInt64Nanoseconds(latency), 0, kMaxNs);
  const int64_t bucket = BucketOf(ns);
  if (bucket >= static_cast<int64_t>(buckets_.size())) {
    buckets_.resize(bucket + 1);
  }
  ++buckets_[bucket];
  min_ns_ = count_ == 0 ? ns : std::min(min_ns_, ns);
  max_ns_ = std::max(max_ns_, ns);
  sum_ns_ += static_cast<double>(ns);
  ++count_;
}

void LatencyRecorder::Merge(const LatencyRecorder& other) {
  if (other.count_ == 0) return;
  if (other.buckets_.size() > buckets_.size()) {
    buckets_.resize(other.buckets_.size());
  }
  for (size_t i = 0; i < other.buckets_.size(); ++i) {
    buckets_[i] += other.buckets_[i];
  }
  min_ns_ = count_ == 0 ? other.min_ns_ : std::min(min_ns_, other.min_ns_);
  max_ns_ = std::max(max_ns_, other.max_ns_);
  sum_ns_ += other.sum_ns_;
  count_ += other.count_;
}

absl::Duration LatencyRecorder::min() const {
  return absl::Nanoseconds(min_ns_);
}

absl::Duration LatencyRecorder::max() const {
  return absl::Nanoseconds(max_ns_);
}

absl::Duration LatencyRecorder::mean() const {
  if (count_ == 0) return absl::ZeroDuration();
  return absl::Nanoseconds(sum_ns_ / static_cast<double>(count_));
}

absl::Duration LatencyRecorder::Percentile(double percent) const {
  const double fraction = std::clamp(percent, 0.0, 100.0) / 100.0;
  const int64_t rank = std::max<int64_t>(
      1,
      static_cast<int64_t>(std::ceil(fraction * static_cast<double>(count_))));
  int64_t seen = 0;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    seen += buckets_[i];
    if (seen >= rank) {
      return absl::Nanoseconds(std::min(UpperBoundOf(i), max_ns_));
    }
  }
  return absl::ZeroDuration();
}

}  // namespace qgemm
