// SPDX-License-Identifier: Apache-2.0
//
// A layer as the CUDA backend keeps it: one piece of device memory, and the
// views through which kernels read it.

#ifndef QGEMM_KERNELS_CUDA_CUDA_WEIGHTS_H_
#define QGEMM_KERNELS_CUDA_CUDA_WEIGHTS_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/byte_budget.h"
#include "kernels/cuda/layout/dense_layout.h"
#include "kernels/cuda/layout/tiled_weights.h"
#include "kernels/cuda/plan/kernel_path.h"
#include "kernels/cuda/runtime/buffers.h"
#include "kernels/host/weights_arena.h"
#include "kernels/matrix/backend.h"
#include "kernels/matrix/types.h"
#include "kernels/matrix/weights.h"

namespace qgemm::cuda {

// A resident dense layer as launches receive it. Borrows device memory.
struct DenseWeights {
  DenseLayout layout;
  const uint8_t* memory = nullptr;
  bool has_bias = false;

  // [n], or null.
  const float* bias() const {
    if (!has_bias) return nullptr;
    return reinterpret_cast<const float*>(memory + layout.bias_offset);
  }
};

struct CudaWeightsParts {
  WeightsShape shape;
  ByteReservation reservation;       // outlives the memory that it counts
  LayerMemory<DeviceBuffer> memory;  // the views below point into it
  uint64_t checksum = 0;             // of memory in an arena
  TiledWeights tiled;                // of a quantized layer
  // DecodeKernelMaxM of a quantized layer.
  int64_t decode_kernel_max_m = 0;
  std::vector<float> codebook;  // as on the device
  DenseWeights dense;           // of a dense layer
};

// Immutable and thread-safe. The memory goes back with the last reference:
// whoever enqueues work on it keeps one until the work is done.
class CudaWeights final : public ResidentWeights {
 public:
  explicit CudaWeights(CudaWeightsParts parts)
      : ResidentWeights(parts.shape.n, parts.shape.k),
        parts_(std::move(parts)) {}

  int64_t resident_bytes() const override { return parts_.memory.size_bytes(); }

  const CudaWeightsParts& parts() const { return parts_; }
  const WeightsShape& shape() const { return parts_.shape; }
  // Only of a quantized layer.
  const TiledWeights& tiled() const { return parts_.tiled; }
  const std::vector<float>& codebook() const { return parts_.codebook; }
  // True if few rows, too, are multiplied by cuBLASLt: a dense layer, or one
  // that has no decode kernel on the device.
  bool uses_cublas() const {
    return shape().dense || !tiled().layout.has_decode_kernel;
  }
  // The input of ChooseKernelPath. Borrows from this.
  LayerShape layer_shape(bool needs_fp32_sums) const {
    LayerShape layer;
    layer.n = n();
    layer.k = k();
    layer.tiles = shape().dense ? nullptr : &tiled().layout;
    layer.decode_kernel_max_m = parts_.decode_kernel_max_m;
    layer.needs_fp32_sums = needs_fp32_sums;
    return layer;
  }
  // Only of a dense layer.
  const DenseWeights& dense() const { return parts_.dense; }

 private:
  const CudaWeightsParts parts_;
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_CUDA_WEIGHTS_H_
