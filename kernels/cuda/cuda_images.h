// SPDX-License-Identifier: Apache-2.0
//
// Images of the CUDA backend's layers, through pinned memory.

#ifndef QGEMM_KERNELS_CUDA_CUDA_IMAGES_H_
#define QGEMM_KERNELS_CUDA_CUDA_IMAGES_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/cuda/cuda_weights_builder.h"
#include "kernels/matrix/backend.h"
#include "kernels/matrix/layer_images.h"

namespace qgemm::cuda {

// Thread-safe.
class CudaImages final : public LayerImages {
 public:
  // The budget has a pool of contexts.
  explicit CudaImages(CudaWeightsBudget budget) : budget_(std::move(budget)) {}

  absl::StatusOr<LayerImage> Describe(const ResidentWeights& weights) override;
  absl::Status Copy(const ResidentWeights& weights, int64_t offset_bytes,
                    absl::Span<uint8_t> bytes) override;
  absl::StatusOr<std::unique_ptr<ImageSink>> NewSink(
      const LayerImage& image) override;

 private:
  const CudaWeightsBudget budget_;
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_CUDA_IMAGES_H_
