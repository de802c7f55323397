// SPDX-License-Identifier: Apache-2.0
//
// Counts of a run over time: intervals of 100 ms, and blocks of latencies that
// are coarse and few enough to be kept in a report.

#ifndef QGEMM_LOADTEST_ENGINE_SERIES_H_
#define QGEMM_LOADTEST_ENGINE_SERIES_H_

#include <cstdint>
#include <vector>

#include "base/histogram.h"
#include "loadtest/report/loadtest_report.h"

namespace qgemm::loadtest {

// Latencies up to this are recorded without allocating: 69 s.
inline constexpr int64_t kUsualMaxNs = int64_t{1} << 36;

// Requests that ended since the counts were last taken.
struct IntervalCounts {
  void Merge(const IntervalCounts& other);
  void Clear();

  Histogram latency_ns{kUsualMaxNs};  // of answers, from the intended start
  Histogram counted_ns{kUsualMaxNs};  // of those due after the warm-up
  int64_t rows = 0;
  int64_t errors = 0;
  int64_t max_lag_ns = 0;
  double launch_rows = 0;  // summed over the answers
};

// Takes histograms of intervals of equal length and joins them into at most
// kMaxBlocks blocks; when there are more, neighbours are joined. Values keep
// their seven highest bits. Not thread-safe.
class BlockSeries {
 public:
  static constexpr int kMaxBlocks = 100;
  // Intervals of 100 ms: blocks of 500 ms to begin with.
  static constexpr int kFirstIntervals = 5;

  void Append(const Histogram& interval);

  // Complete blocks; intervals since the last one are left out unless there is
  // no complete block.
  std::vector<Histogram> Take();

 private:
  void JoinNeighbours();

  std::vector<Histogram> blocks_;
  Histogram open_;
  int open_intervals_ = 0;
  int intervals_a_block_ = kFirstIntervals;
};

}  // namespace qgemm::loadtest

#endif  // QGEMM_LOADTEST_ENGINE_SERIES_H_
