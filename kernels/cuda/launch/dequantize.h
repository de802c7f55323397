// SPDX-License-Identifier: Apache-2.0
//
// Writes rows of a resident quantized layer out as fp16 or bf16.

#ifndef QGEMM_KERNELS_CUDA_LAUNCH_DEQUANTIZE_H_
#define QGEMM_KERNELS_CUDA_LAUNCH_DEQUANTIZE_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/layout/tiled_weights.h"
#include "kernels/matrix/types.h"

namespace qgemm::cuda {

// out[r, j] = w[row_begin + r, j] * out_factor, in canonical column order;
// columns k to ldo are zero. The product with the scale is rounded to fp32
// (exact, unless scale and codebook have more than 24 bits together), then to
// the type; both to nearest even.
struct DequantizeArgs {
  TiledWeights weights;
  int64_t row_begin = 0;
  int64_t rows = 0;
  FloatType out_type = FloatType::kFloat16;  // kFloat16 or kBFloat16
  float out_factor = 1;                      // a power of two
  void* out = nullptr;  // device, [rows, ldo], 16-byte aligned
  int64_t ldo = 0;      // k to padded k, a multiple of 8
};

// Enqueues on `stream` and returns. Errors: cudaErrorInvalidValue (another
// type, rows outside the layer, an illegal ldo).
cudaError_t LaunchDequantize(const DequantizeArgs& args, cudaStream_t stream);

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_LAUNCH_DEQUANTIZE_H_
