// SPDX-License-Identifier: Apache-2.0

#include "loadtest/engine/series.h"

#include <algorithm>
#include <utility>

namespace qgemm::loadtest {
namespace {

constexpr int kKeptBits = 7;

// `value` with its bits below the highest kKeptBits replaced by those of the
// middle of what remains.
int64_t Coarse(int64_t value) {
  const int width = 64 - __builtin_clzll(static_cast<uint64_t>(value) | 1);
  const int dropped = std::max(0, width - kKeptBits);
  if (dropped == 0) return value;
  return ((value >> dropped) << dropped) + (int64_t{1} << (dropped - 1));
}

}  // namespace

void IntervalCounts::Merge(const IntervalCounts& other) {
  latency_ns.Merge(other.latency_ns);
  counted_ns.Merge(other.counted_ns);
  rows += other.rows;
  errors += other.errors;
  max_lag_ns = std::max(max_lag_ns, other.max_lag_ns);
  launch_rows += other.launch_rows;
}

void IntervalCounts::Clear() {
  latency_ns.Clear();
  counted_ns.Clear();
  rows = errors = max_lag_ns = 0;
  launch_rows = 0;
}

void BlockSeries::Append(const Histogram& interval) {
  interval.ForEachBucket([this](const Histogram::Bucket& bucket) {
    open_.Record(Coarse(bucket.lowest), bucket.count);
  });
  if (++open_intervals_ < intervals_a_block_) return;
  blocks_.push_back(std::exchange(open_, Histogram()));
  open_intervals_ = 0;
  if (blocks_.size() == kMaxBlocks) JoinNeighbours();
}

void BlockSeries::JoinNeighbours() {
  for (size_t i = 0; i < blocks_.size() / 2; ++i) {
    Histogram joined = std::move(blocks_[2 * i]);
    joined.Merge(blocks_[2 * i + 1]);
    blocks_[i] = std::move(joined);
  }
  blocks_.resize(blocks_.size() / 2);
  intervals_a_block_ *= 2;
}

std::vector<Histogram> BlockSeries::Take() {
  if (blocks_.empty()) blocks_.push_back(std::move(open_));
  return std::move(blocks_);
}

}  // namespace qgemm::loadtest
