// SPDX-License-Identifier: Apache-2.0
//
// A layer on the GPU and launches of the wide family on it.

#ifndef QGEMM_TESTS_KERNELS_CUDA_WIDE_GEMM_H_
#define QGEMM_TESTS_KERNELS_CUDA_WIDE_GEMM_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/cuda/cuda_weights.h"
#include "kernels/cuda/launch/gemm_operands.h"
#include "kernels/cuda/runtime/device_buffer.h"
#include "kernels/cuda/tuning/device_traits.h"
#include "kernels/cuda/tuning/tile_layout.h"
#include "kernels/matrix/canonical_weights.h"
#include "kernels/matrix/types.h"
#include "tests/support/seeds.h"

namespace qgemm::cuda {

// Thread-compatible; aborts where the device refuses.
class WideGemm {
 public:
  static constexpr int64_t kMaxM = 520;

  // Loads the layer, and kMaxM random rows of `a_type` for it. In device
  // memory NaNs follow each row.
  WideGemm(const CanonicalWeights& weights, const DeviceTraits& device,
           FloatType a_type, RandomGenerator* random);

  const TileLayout& layout() const { return weights_->tiled().layout; }
  const std::vector<uint8_t>& a() const { return a_; }

  // Of the first m rows, without C.
  GemmOperands Operands(int64_t m, FloatType c_type) const;
  // The same, but of m rows from `row` on.
  GemmOperands OperandsFrom(int64_t row, int64_t m, FloatType c_type) const;

  // Bytes of that C.
  int64_t ResultBytes(const GemmOperands& operands) const;

  // C by tiles of so many tokens (0: as the family chooses), poisoned before;
  // it starts `misalignment` bytes behind a multiple of 256. Expects that
  // nothing beside it is written.
  std::vector<uint8_t> Multiply(GemmOperands operands, int tokens,
                                int64_t misalignment = 0) const;

 private:
  FloatType a_type_;
  std::vector<uint8_t> a_;
  std::shared_ptr<const CudaWeights> weights_;
  int64_t lda_;
  DeviceBuffer prepared_;
  DeviceBuffer c_;  // of kMaxM rows of fp32, between guards
};

}  // namespace qgemm::cuda

#endif  // QGEMM_TESTS_KERNELS_CUDA_WIDE_GEMM_H_
