// SPDX-License-Identifier: Apache-2.0
//
// Repacks a layer on the GPU as its panels arrive, so that little is left to
// do at the end. Beside the layer's own memory it holds an upload context.

#ifndef QGEMM_KERNELS_CUDA_CUDA_WEIGHTS_BUILDER_H_
#define QGEMM_KERNELS_CUDA_CUDA_WEIGHTS_BUILDER_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/byte_budget.h"
#include "kernels/cuda/cuda_kept_memory.h"
#include "kernels/cuda/cuda_weights.h"
#include "kernels/cuda/layout/device_traits.h"
#include "kernels/cuda/panel_uploader.h"
#include "kernels/cuda/upload_context.h"
#include "kernels/matrix/backend.h"
#include "kernels/matrix/weights.h"

namespace qgemm::cuda {

// The place for layers, and the limits that they are checked by.
struct CudaWeightsBudget {
  int device_index = 0;
  DeviceTraits device;
  KernelPolicy policy;  // of the line that Finish logs
  BackendLimits limits;
  std::shared_ptr<ByteBudget> weights;  // of all layers together
  // Memory that can outlive the process; null: the layer is in memory that
  // cannot. Outlives the builder.
  CudaKeptMemory* kept = nullptr;
  // Null: a context of the builder's own, which goes with it.
  std::shared_ptr<UploadContextPool> contexts;
};

// Memory for one layer, and its reservation. Contents are undefined. Errors:
// RESOURCE_EXHAUSTED.
struct CudaLayerMemory {
  ByteReservation reservation;
  LayerMemory<DeviceBuffer> memory;
};
absl::StatusOr<CudaLayerMemory> TakeMemory(const CudaWeightsBudget& budget,
                                           int64_t bytes);

// The bytes that a layer of that shape will hold; 0 for one that Begin refuses
// whatever the limits.
int64_t EstimateResidentBytes(const WeightsShape& shape,
                              const DeviceTraits& device);

// Used by one thread at a time.
class CudaWeightsBuilder final : public WeightsBuilder {
 public:
  explicit CudaWeightsBuilder(CudaWeightsBudget budget)
      : budget_(std::move(budget)) {}

  absl::Status Begin(const WeightsHeader& header) override;
  absl::Status WriteCodes(const CodePanel& panel) override;
  absl::Status WriteScales(const GroupPanel& panel) override;
  absl::Status WriteZeros(const GroupPanel& panel) override;
  absl::Status WriteDense(const DensePanel& panel) override;
  absl::Status SetTensorScale(float tensor_scale) override;
  absl::StatusOr<std::shared_ptr<const ResidentWeights>> Finish() override;

 private:
  absl::Status TakeMemory(int64_t bytes);
  // Starts the upload to parts_.memory.
  absl::Status OpenUploader(UploadTarget target);
  absl::Status BeginQuantized(const WeightsHeader& header);
  absl::Status BeginDense();
  // Bias, permutation and codebook.
  absl::Status CopyVectors(const WeightsHeader& header);
  // A line that says which kernel multiplies the layer, by rows, and why.
  void LogKernelPaths(const CudaWeights& weights) const;
  absl::Status WriteGroups(PanelKind kind, const GroupPanel& panel,
                           int64_t element_bytes);

  const CudaWeightsBudget budget_;
  CudaWeightsParts parts_;
  std::unique_ptr<PanelUploader> uploader_;  // writes to parts_.memory
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_CUDA_WEIGHTS_BUILDER_H_
