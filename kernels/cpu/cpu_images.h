// SPDX-License-Identifier: Apache-2.0
//
// Images of the CPU backend's layers: what its kept memory tells of them too.

#ifndef QGEMM_KERNELS_CPU_CPU_IMAGES_H_
#define QGEMM_KERNELS_CPU_CPU_IMAGES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/cpu/cpu_weights.h"
#include "kernels/matrix/backend.h"
#include "kernels/matrix/layer_images.h"

namespace qgemm::cpu {

// LayerImage::detail of a layer.
std::string DetailOf(const CpuWeightsParts& parts);

// The parts of a layer of that image, without memory. Errors: INVALID_ARGUMENT
// (nothing that DetailOf returns, other bytes than its shape takes, or beyond
// the limits).
absl::StatusOr<CpuWeightsParts> PartsOf(const LayerImage& image,
                                        const BackendLimits& limits);

// Thread-safe.
class CpuImages final : public LayerImages {
 public:
  // Checks what comes by the limits.
  CpuImages(const BackendLimits& limits, CpuWeightsMemory memory)
      : limits_(limits), memory_(std::move(memory)) {}

  absl::StatusOr<LayerImage> Describe(const ResidentWeights& weights) override;
  absl::Status Copy(const ResidentWeights& weights, int64_t offset_bytes,
                    absl::Span<uint8_t> bytes) override;
  absl::StatusOr<std::unique_ptr<ImageSink>> NewSink(
      const LayerImage& image) override;

 private:
  const BackendLimits limits_;
  const CpuWeightsMemory memory_;
};

}  // namespace qgemm::cpu

#endif  // QGEMM_KERNELS_CPU_CPU_IMAGES_H_
