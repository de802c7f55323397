// SPDX-License-Identifier: Apache-2.0
//
// Latencies in consecutive stretches of equal length, coarse and few enough to
// be kept in a report.

#ifndef QGEMM_LOADTEST_ENGINE_BLOCK_SERIES_H_
#define QGEMM_LOADTEST_ENGINE_BLOCK_SERIES_H_

#include <vector>

#include "base/histogram.h"

namespace qgemm {

// Takes histograms of intervals of equal length and joins them into at most
// kMaxBlocks blocks; when there are more, neighbours are joined. Values keep
// their seven highest bits. Not thread-safe.
class BlockSeries {
 public:
  static constexpr int kMaxBlocks = 100;
  // Intervals of 100 ms: blocks of 500 ms to begin with.
  static constexpr int kFirstIntervals = 5;

  void Append(const Histogram& interval);

  // Complete blocks only; what was appended since the last one is left out
  // unless there is nothing else.
  std::vector<Histogram> Take();

 private:
  void JoinNeighbours();

  std::vector<Histogram> blocks_;
  Histogram open_;
  int open_intervals_ = 0;
  int intervals_a_block_ = kFirstIntervals;
};

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_ENGINE_BLOCK_SERIES_H_
