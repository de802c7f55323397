// SPDX-License-Identifier: Apache-2.0
//
// The canonical form held whole in memory: what the reference backend computes
// with, and what tests and client-side verification compare against.

#ifndef QGEMM_KERNELS_MATRIX_CANONICAL_WEIGHTS_H_
#define QGEMM_KERNELS_MATRIX_CANONICAL_WEIGHTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "kernels/matrix/weights.h"

namespace qgemm {

// A sink that keeps what it is given. Not thread-safe while it is written;
// safe for concurrent readers afterwards.
class CanonicalWeights final : public WeightsSink {
 public:
  absl::Status Begin(const WeightsHeader& header) override;
  absl::Status WriteCodes(const CodePanel& panel) override;
  absl::Status WriteScales(const GroupPanel& panel) override;
  absl::Status WriteZeros(const GroupPanel& panel) override;
  absl::Status WriteDense(const DensePanel& panel) override;
  absl::Status SetTensorScale(float tensor_scale) override;

  const WeightsHeader& header() const { return header_; }
  float tensor_scale() const { return tensor_scale_; }
  // [n, k], one code a byte; empty for a dense layer.
  const std::vector<uint8_t>& codes() const { return codes_; }
  // [n, groups_per_row] in the header's scale type.
  const std::vector<uint8_t>& scales() const { return scales_; }
  // [n, groups_per_row], or empty.
  const std::vector<uint8_t>& zeros() const { return zeros_; }
  // [n, k] in the header's dense type; empty for a quantized layer.
  const std::vector<uint8_t>& dense() const { return dense_; }

  // The weight that multiplies canonical column `column` of row `row`, exact
  // in double.
  double Weight(int64_t row, int64_t column) const;

  // The caller's input feature that canonical column `column` multiplies.
  int64_t InputFeature(int64_t column) const {
    return header_.permutation.empty() ? column : header_.permutation[column];
  }

 private:
  WeightsHeader header_;
  float tensor_scale_ = 1.0f;
  std::vector<uint8_t> codes_;
  std::vector<uint8_t> scales_;
  std::vector<uint8_t> zeros_;
  std::vector<uint8_t> dense_;
};

}  // namespace qgemm

#endif  // QGEMM_KERNELS_MATRIX_CANONICAL_WEIGHTS_H_
