// SPDX-License-Identifier: Apache-2.0
//
// How far a ratio between two runs may be off by chance: stretches of each run
// are drawn again and again, and the ratio of what comes out is looked at.

#ifndef QGEMM_LOADTEST_REPORT_BLOCK_BOOTSTRAP_H_
#define QGEMM_LOADTEST_REPORT_BLOCK_BOOTSTRAP_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "base/histogram.h"

namespace qgemm {

// With fewer there is too little to draw from.
inline constexpr size_t kFewestBlocks = 5;

// A figure of a run's blocks, of which each counts `weights[block]` times.
struct BlockStatistic {
  size_t blocks = 0;
  std::function<double(absl::Span<const double> weights)> value;
  // How wide the step is to which a block's figure is known, as a share of it.
  double step = 0;
};

struct RatioInterval {
  double low = 0;
  double high = 0;
};

// The 95 % confidence interval of b / a, as a multiple of the ratio of all
// blocks. Blocks are drawn with replacement, on each side apart, 2000 times;
// the quantiles are widened for few blocks, where plain ones are too narrow,
// and for what steps hide: differences between blocks that lie within one. The
// same input gives the same interval. Absent if a side has fewer than
// kFewestBlocks blocks or a figure is not above 0.
// Source: Hesterberg, "What Teachers Should Know About the Bootstrap" (2015),
// the expanded percentile interval.
std::optional<RatioInterval> BootstrapRatio(const BlockStatistic& a,
                                            const BlockStatistic& b);

// Statistics of values counted in blocks. Values are taken to 1/64, within
// which they are taken to be evenly spread, so that percentiles move in small
// steps. Statistics refer to the object, which must outlive them.
class BlockValues {
 public:
  explicit BlockValues(absl::Span<const Histogram> blocks);
  BlockValues(const BlockValues&) = delete;
  BlockValues& operator=(const BlockValues&) = delete;

  size_t blocks() const { return counts_.size(); }
  BlockStatistic Count() const;
  BlockStatistic Mean() const;
  // `percent` of the values do not exceed it.
  BlockStatistic Percentile(double percent) const;

 private:
  double PercentileOf(double percent, absl::Span<const double> weights) const;
  // Values in the cells up to this one, by weight.
  double CountUpTo(size_t cell, absl::Span<const double> weights) const;

  std::vector<double> counts_;  // by block
  std::vector<double> sums_;    // by block
  // Of the cells that hold a value in some block, ascending.
  std::vector<double> lowest_;
  std::vector<double> beyond_;  // the first value above the cell
  // [cell][block]: values of the block in this cell and those before it.
  std::vector<double> cumulative_;
};

// sum(numerators * weights) / sum(denominators * weights): means and rates of
// figures a block. The spans are copied.
BlockStatistic QuotientOfSums(absl::Span<const double> numerators,
                              absl::Span<const double> denominators);

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_REPORT_BLOCK_BOOTSTRAP_H_
