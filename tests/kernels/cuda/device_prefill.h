// SPDX-License-Identifier: Apache-2.0
//
// A layer on the GPU and launches of the prefill kernel on it.

#ifndef QGEMM_TESTS_KERNELS_CUDA_DEVICE_PREFILL_H_
#define QGEMM_TESTS_KERNELS_CUDA_DEVICE_PREFILL_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/cuda/cuda_weights.h"
#include "kernels/cuda/launch/gemm.h"
#include "kernels/cuda/layout/device_traits.h"
#include "kernels/cuda/layout/tile_layout.h"
#include "kernels/cuda/runtime/buffers.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/matrix/canonical_weights.h"
#include "kernels/matrix/types.h"
#include "tests/support/seeds.h"

namespace qgemm::cuda {

// Thread-compatible; aborts where the device refuses.
class DevicePrefill {
 public:
  static constexpr int64_t kMaxM = 520;

  // Loads the layer, and kMaxM random rows of `a_type` for it. In device
  // memory NaNs follow each row.
  DevicePrefill(const CanonicalWeights& weights, const Device& device,
                FloatType a_type, RandomGenerator* random);

  const TileLayout& layout() const { return weights_->tiled().layout; }
  const std::vector<uint8_t>& a() const { return a_; }

  // Operands of the first m rows, without C.
  GemmOperands Operands(int64_t m, FloatType c_type) const;
  // The same, but of m rows from `row` on.
  GemmOperands OperandsFrom(int64_t row, int64_t m, FloatType c_type) const;

  // Bytes of that C.
  int64_t ResultBytes(const GemmOperands& operands) const;

  // C by such tiles, poisoned before; it starts `misalignment` bytes behind a
  // multiple of 256. Expects that nothing beside it is written, and that no sum
  // is left that blocks handed over.
  std::vector<uint8_t> Multiply(GemmOperands operands,
                                const PrefillTiling& tiling,
                                int64_t misalignment = 0) const;

 private:
  const Device device_;
  FloatType a_type_;
  std::vector<uint8_t> a_;
  std::shared_ptr<const CudaWeights> weights_;
  int64_t lda_;
  DeviceBuffer prepared_;
  DeviceBuffer handed_;
  DeviceBuffer c_;  // of kMaxM rows of fp32, between guards
};

}  // namespace qgemm::cuda

#endif  // QGEMM_TESTS_KERNELS_CUDA_DEVICE_PREFILL_H_
