// SPDX-License-Identifier: Apache-2.0
//
// Loads with a budget that no test's layer reaches.

#include "tests/kernels/cuda/device_layer.h"

#include <cuda_runtime_api.h>

#include <utility>

#include "base/byte_budget.h"
#include "base/check.h"
#include "kernels/cuda/cuda_weights_builder.h"
#include "tests/support/panel_writer.h"

namespace qgemm::cuda {

DeviceBuffer Allocate(int64_t size_bytes) {
  absl::StatusOr<DeviceBuffer> buffer = DeviceBuffer::Allocate(size_bytes);
  CHECK(buffer.ok()) << buffer.status();
  return *std::move(buffer);
}

DeviceBuffer Upload(const void* bytes, int64_t size_bytes) {
  DeviceBuffer buffer = Allocate(size_bytes);
  CHECK_EQ(cudaMemcpy(buffer.data(), bytes, size_bytes, cudaMemcpyHostToDevice),
           cudaSuccess);
  return buffer;
}

DeviceBuffer Upload(const std::vector<uint8_t>& bytes) {
  return Upload(bytes.data(), static_cast<int64_t>(bytes.size()));
}

std::vector<uint8_t> Download(const DeviceBuffer& buffer) {
  std::vector<uint8_t> bytes(buffer.size_bytes());
  CHECK_EQ(cudaMemcpy(bytes.data(), buffer.data(), bytes.size(),
                      cudaMemcpyDeviceToHost),
           cudaSuccess);
  return bytes;
}

DeviceBuffer AllocatePoisoned(int64_t size_bytes) {
  DeviceBuffer buffer = Allocate(size_bytes);
  CHECK_EQ(cudaMemset(buffer.data(), 0xff, buffer.size_bytes()), cudaSuccess);
  return buffer;
}

std::shared_ptr<const CudaWeights> Load(const CanonicalWeights& weights,
                                        const DeviceTraits& device) {
  CudaWeightsBudget budget;
  budget.device = device;
  budget.limits.max_n = 1 << 20;
  budget.limits.max_k = 1 << 20;
  budget.weights = std::make_shared<ByteBudget>(ByteBudgetOptions());
  CudaWeightsBuilder builder(budget);
  CHECK_OK(WriteWhole(weights, &builder));
  const auto built = builder.Finish();
  CHECK(built.ok()) << built.status();
  return std::dynamic_pointer_cast<const CudaWeights>(*built);
}

std::vector<WeightsRecipe> QuantizedRecipes() {
  std::vector<WeightsRecipe> recipes;
  for (const WeightsRecipe& recipe : AllWeightsRecipes()) {
    if (recipe.header.kind == WeightsHeader::Kind::kQuantized) {
      recipes.push_back(recipe);
    }
  }
  return recipes;
}

std::string NameOfRecipe(const testing::TestParamInfo<WeightsRecipe>& info) {
  return info.param.name;
}

}  // namespace qgemm::cuda
