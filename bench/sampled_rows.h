// SPDX-License-Identifier: Apache-2.0
//
// A sink that keeps some rows of a layer too large to be kept whole.

#ifndef QGEMM_BENCH_SAMPLED_ROWS_H_
#define QGEMM_BENCH_SAMPLED_ROWS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/matrix/canonical_weights.h"
#include "kernels/matrix/weights.h"

namespace qgemm {

// At most `count` indices below `extent`, ascending, spread over the whole of
// it: the first and the last are among them.
std::vector<int64_t> SpreadIndices(int64_t extent, int64_t count);

// Panels must be of whole rows of codes and groups. A layer with a bias is
// refused with INVALID_ARGUMENT.
class SampledRows final : public WeightsSink {
 public:
  // Keeps SpreadIndices(n, count).
  explicit SampledRows(int64_t count) : count_(count) {}

  // INVALID_ARGUMENT for a layer with a bias, of which it would keep too much.
  absl::Status Begin(const WeightsHeader& header) override;
  absl::Status WriteCodes(const CodePanel& panel) override;
  absl::Status WriteScales(const GroupPanel& panel) override;
  absl::Status WriteZeros(const GroupPanel& panel) override;
  absl::Status WriteDense(const DensePanel& panel) override;
  absl::Status SetTensorScale(float tensor_scale) override;

  // Sampled rows of the layer, ascending.
  const std::vector<int64_t>& rows() const { return rows_; }
  // A layer of these rows alone.
  const CanonicalWeights& weights() const { return weights_; }

 private:
  // Calls `write(index of the sample, its bytes in the panel)` for each
  // sampled row of a panel.
  template <typename Write>
  absl::Status ForEachSample(int64_t row_begin, int64_t rows,
                             absl::Span<const uint8_t> bytes, Write write);

  const int64_t count_;
  std::vector<int64_t> rows_;
  CanonicalWeights weights_;
};

}  // namespace qgemm

#endif  // QGEMM_BENCH_SAMPLED_ROWS_H_
