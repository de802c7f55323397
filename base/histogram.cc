// SPDX-License-Identifier: Apache-2.0
//
// The bucket arithmetic of Histogram.

#include "base/histogram.h"

#include <algorithm>
#include <cmath>

namespace qgemm {
namespace {

// Values below 2^kLinearBits have a bucket each; above, a value keeps its
// kLinearBits highest bits.
constexpr int kLinearBits = 11;
constexpr int64_t kHalf = int64_t{1} << (kLinearBits - 1);
constexpr int64_t kMaxValue = int64_t{1} << 62;

int ShiftOf(int64_t value) {
  const int width = 64 - __builtin_clzll(static_cast<uint64_t>(value) | 1);
  return std::max(0, width - kLinearBits);
}

int64_t IndexOf(int64_t value) {
  const int shift = ShiftOf(value);
  return shift * kHalf + (value >> shift);
}

Histogram::Bucket BucketAt(int64_t index, int64_t count) {
  if (index < 2 * kHalf) return {index, index, count};
  const int64_t shift = index / kHalf - 1;
  const int64_t mantissa = index - shift * kHalf;
  return {mantissa << shift, ((mantissa + 1) << shift) - 1, count};
}

int64_t Clamp(int64_t value) {
  return std::clamp<int64_t>(value, 0, kMaxValue);
}

}  // namespace

Histogram::Histogram(int64_t max_value)
    : buckets_(IndexOf(Clamp(max_value)) + 1) {}

void Histogram::Record(int64_t value, int64_t count) {
  if (count <= 0) return;
  value = Clamp(value);
  const int64_t index = IndexOf(value);
  if (index >= static_cast<int64_t>(buckets_.size())) {
    buckets_.resize(index + 1);
  }
  buckets_[index] += count;
  min_ = count_ == 0 ? value : std::min(min_, value);
  max_ = std::max(max_, value);
  sum_ += static_cast<double>(value) * static_cast<double>(count);
  count_ += count;
}

void Histogram::Merge(const Histogram& other) {
  if (other.count_ == 0) return;
  if (other.buckets_.size() > buckets_.size()) {
    buckets_.resize(other.buckets_.size());
  }
  for (size_t i = 0; i < other.buckets_.size(); ++i) {
    buckets_[i] += other.buckets_[i];
  }
  min_ = count_ == 0 ? other.min_ : std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
  sum_ += other.sum_;
  count_ += other.count_;
}

void Histogram::Clear() {
  if (count_ == 0) return;
  std::fill(buckets_.begin(), buckets_.end(), 0);
  count_ = 0;
  min_ = 0;
  max_ = 0;
  sum_ = 0;
}

double Histogram::mean() const {
  return count_ == 0 ? 0 : sum_ / static_cast<double>(count_);
}

double Histogram::standard_deviation() const {
  if (count_ == 0) return 0;
  const double center = mean();
  double squares = 0;
  ForEachBucket([&](const Bucket& bucket) {
    const double middle = 0.5 * (static_cast<double>(bucket.lowest) +
                                 static_cast<double>(bucket.highest));
    squares += static_cast<double>(bucket.count) * (middle - center) *
               (middle - center);
  });
  return std::sqrt(squares / static_cast<double>(count_));
}

int64_t Histogram::Percentile(double percent) const {
  // 99.9 % of 1000 must be 999, although the product is a little above it.
  constexpr double kRounding = 1 - 1e-12;
  const double share = std::clamp(percent, 0.0, 100.0) / 100.0 * kRounding;
  const int64_t rank = std::max<int64_t>(
      1, static_cast<int64_t>(std::ceil(share * static_cast<double>(count_))));
  int64_t seen = 0;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    seen += buckets_[i];
    if (seen >= rank) {
      return std::min(BucketAt(static_cast<int64_t>(i), 0).highest, max_);
    }
  }
  return 0;
}

int64_t Histogram::CountUpTo(int64_t value) const {
  int64_t seen = 0;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    if (BucketAt(static_cast<int64_t>(i), 0).highest > value) break;
    seen += buckets_[i];
  }
  return seen;
}

void Histogram::ForEachBucket(
    absl::FunctionRef<void(const Bucket&)> visit) const {
  for (size_t i = 0; i < buckets_.size(); ++i) {
    if (buckets_[i] == 0) continue;
    visit(BucketAt(static_cast<int64_t>(i), buckets_[i]));
  }
}

}  // namespace qgemm
