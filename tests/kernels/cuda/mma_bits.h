// SPDX-License-Identifier: Apache-2.0
//
// Multiplies the same operands by mma.sync and by wgmma and compares the bits.

#ifndef QGEMM_TESTS_KERNELS_CUDA_MMA_BITS_H_
#define QGEMM_TESTS_KERNELS_CUDA_MMA_BITS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

namespace qgemm::cuda {

enum class MmaOperands {
  kUniform,        // in [-1, 1)
  kWideExponents,  // all normal exponents alike
  kCancellation,   // near 1 and near -1
  kSubnormal,
  kSpecial,  // wide exponents, with some infinities and NaNs
};

struct MmaComparison {
  MmaOperands operands = MmaOperands::kUniform;
  bool bf16 = false;  // or fp16
  int steps = 1;      // of 16 columns that are added up
  int rounds = 1;     // of kMmaRoundOutputs outputs
  uint64_t seed = 0;
};

struct MmaCounts {
  unsigned long long outputs;
  // Other bits by wgmma, where not both are NaN.
  unsigned long long differing;
};

inline constexpr int kMmaRoundOutputs = 64 * 64 * 8;

// Waits for the end. Counts nothing where the code for the GPU has no wgmma.
cudaError_t CompareMmaBits(const MmaComparison& comparison, MmaCounts& counts);

}  // namespace qgemm::cuda

#endif  // QGEMM_TESTS_KERNELS_CUDA_MMA_BITS_H_
