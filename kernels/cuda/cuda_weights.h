// SPDX-License-Identifier: Apache-2.0
//
// A layer as the CUDA backend keeps it: one piece of device memory, and the
// views through which kernels read it.

#ifndef QGEMM_KERNELS_CUDA_CUDA_WEIGHTS_H_
#define QGEMM_KERNELS_CUDA_CUDA_WEIGHTS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "kernels/cuda/launch/tiled_weights.h"
#include "kernels/cuda/runtime/device_buffer.h"
#include "kernels/cuda/tuning/batch_plan.h"
#include "kernels/cuda/tuning/dense_layout.h"
#include "kernels/matrix/backend.h"
#include "kernels/matrix/types.h"
#include "kernels/matrix/weights.h"

namespace qgemm::cuda {

// Adds to a shared count of bytes while it lives.
class ByteCharge {
 public:
  ByteCharge() = default;
  ByteCharge(std::shared_ptr<std::atomic<int64_t>> total, int64_t bytes)
      : total_(std::move(total)), bytes_(bytes) {
    total_->fetch_add(bytes_);
  }
  ByteCharge(ByteCharge&& other) noexcept { *this = std::move(other); }
  ByteCharge& operator=(ByteCharge&& other) noexcept {
    std::swap(total_, other.total_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~ByteCharge() {
    if (total_ != nullptr) total_->fetch_sub(bytes_);
  }

 private:
  std::shared_ptr<std::atomic<int64_t>> total_;
  int64_t bytes_ = 0;
};

// What the header says of a layer, without its vectors.
struct CudaWeightsTraits {
  bool dense = false;
  FloatType dense_type = FloatType::kFloat16;
  int bits = 0;
  ScaleType scale_type = ScaleType::kFloat16;
  bool has_zeros = false;
  bool has_bias = false;
  bool has_permutation = false;
  bool integer_codes = false;
  bool supports_a8 = false;
};

CudaWeightsTraits TraitsOf(const WeightsHeader& header);

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

// Everything but the shape.
struct CudaWeightsParts {
  CudaWeightsTraits traits;
  ByteCharge charge;    // outlives the memory that it counts
  DeviceBuffer memory;  // what the views below point into
  TiledWeights tiled;   // of a quantized layer
  // Of a quantized layer, the largest magnitude as stored: it bounds weights.
  float largest_scale = 0;
  // Of a quantized layer, ChosenLayer::faster_than_wide.
  int64_t faster_than_wide = 0;
  DenseWeights dense;  // of a dense layer
};

// Immutable and thread-safe. The memory goes back with the last reference:
// whoever enqueues work on it keeps one until the work is done.
class CudaWeights final : public ResidentWeights {
 public:
  CudaWeights(int64_t n, int64_t k, CudaWeightsParts parts)
      : ResidentWeights(n, k), parts_(std::move(parts)) {}

  int64_t resident_bytes() const override { return parts_.memory.size_bytes(); }

  const CudaWeightsTraits& traits() const { return parts_.traits; }
  // Only of a quantized layer.
  const TiledWeights& tiled() const { return parts_.tiled; }
  float largest_scale() const { return parts_.largest_scale; }
  // Whether few rows, too, are multiplied by the large-M family: a dense layer,
  // or one whose small family the device has no room for.
  bool goes_by_slabs() const {
    return traits().dense || !tiled().layout.has_small_family;
  }
  // What the chooser of families goes by.
  ChosenLayer chosen_layer() const {
    return {goes_by_slabs() ? 0 : traits().bits, n() * k(),
            parts_.faster_than_wide};
  }
  // Only of a dense layer.
  const DenseWeights& dense() const { return parts_.dense; }

 private:
  const CudaWeightsParts parts_;
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_CUDA_WEIGHTS_H_
