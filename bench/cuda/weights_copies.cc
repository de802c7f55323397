// SPDX-License-Identifier: Apache-2.0
//
// A copy is the layer's memory elsewhere, and views that point there.

#include "bench/cuda/weights_copies.h"

#include <utility>

#include "base/status_macros.h"
#include "kernels/cuda/runtime/cuda_status.h"

namespace qgemm::cuda {
namespace {

absl::StatusOr<std::shared_ptr<const CudaWeights>> CopyOf(
    const CudaWeights& layer, cudaStream_t stream) {
  const uint8_t* const from =
      layer.shape().dense ? layer.dense().memory : layer.tiled().memory;
  CudaWeightsParts parts;
  parts.shape = layer.shape();
  ASSIGN_OR_RETURN(DeviceBuffer memory,
                   DeviceBuffer::Allocate(layer.resident_bytes()));
  parts.memory = LayerMemory<DeviceBuffer>(std::move(memory));
  RETURN_IF_ERROR(ToStatus(
      cudaMemcpyAsync(parts.memory.data(), from, layer.resident_bytes(),
                      cudaMemcpyDeviceToDevice, stream),
      "copy a layer"));
  parts.tiled = layer.tiled();
  parts.tiled.memory = parts.memory.data();
  parts.dense = layer.dense();
  parts.dense.memory = parts.memory.data();
  parts.decode_kernel_max_m = layer.layer_shape(false).decode_kernel_max_m;
  return std::make_shared<const CudaWeights>(std::move(parts));
}

}  // namespace

absl::StatusOr<WeightsCopies> CopyWeights(
    std::shared_ptr<const CudaWeights> layer, int64_t count,
    cudaStream_t stream) {
  WeightsCopies copies = {std::move(layer)};
  while (static_cast<int64_t>(copies.size()) < count) {
    ASSIGN_OR_RETURN(auto copy, CopyOf(*copies.front(), stream));
    copies.push_back(std::move(copy));
  }
  return copies;
}

}  // namespace qgemm::cuda
