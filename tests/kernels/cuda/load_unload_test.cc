// SPDX-License-Identifier: Apache-2.0
//
// Thousands of loads and unloads leave the GPU as it was.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "tests/kernels/cuda/allocation_counts.h"
#include "tests/kernels/cuda/backend_test.h"

namespace qgemm::cuda {
namespace {

constexpr int kLoads = 8192;
// Layers that stand at one time, so that memory comes back in another order
// than it was taken in.
constexpr size_t kResident = 48;

struct Held {
  int64_t free_bytes;      // as the driver counts
  int64_t device_buffers;  // that stand
  int64_t pinned_buffers;
  int64_t weights_bytes;  // of the backend's own account
};

Held HeldBy(const Backend& backend) {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  EXPECT_EQ(cudaMemGetInfo(&free_bytes, &total_bytes), cudaSuccess);
  return {static_cast<int64_t>(free_bytes),
          DeviceAllocationCount() - DeviceReleaseCount(),
          PinnedAllocationCount() - PinnedReleaseCount(),
          backend.memory().weights_bytes};
}

class LoadUnloadTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    backend_ = NewBackend();
    for (const WeightsRecipe& recipe : AllWeightsRecipes()) {
      const int64_t unit = recipe.k_multiple;
      layers_.push_back(RandomWeights(recipe, 17, 4 * unit, &random_));
      layers_.push_back(
          RandomWeights(recipe, 130, 256 / unit * unit, &random_));
    }
  }

  // Layers at random; some uploads are dropped before their end.
  void LoadAndUnload(int loads) {
    std::deque<std::shared_ptr<const ResidentWeights>> resident;
    for (int i = 0; i < loads; ++i) {
      const CanonicalWeights& layer =
          layers_[RandomInt(0, layers_.size() - 1, &random_)];
      if (i % 16 == 0) {
        const auto dropped = NewBuilder(backend_.get());
        ASSERT_EQ(WriteWhole(layer, dropped.get()), absl::OkStatus());
        continue;
      }
      resident.push_back(LoadWhole(backend_.get(), layer));
      if (resident.size() > kResident) resident.pop_front();
    }
  }

  RandomGenerator random_{FreshSeed()};
  std::unique_ptr<Backend> backend_;
  std::vector<CanonicalWeights> layers_;
};

TEST_F(LoadUnloadTest, ThousandsLeaveNothingBehind) {
  // Code of every kernel, and the buffers that the backend keeps.
  LoadAndUnload(512);
  const Held before = HeldBy(*backend_);
  LoadAndUnload(kLoads);
  const Held after = HeldBy(*backend_);
  EXPECT_GE(after.free_bytes, before.free_bytes);
  EXPECT_EQ(after.device_buffers, before.device_buffers);
  EXPECT_EQ(after.pinned_buffers, before.pinned_buffers);
  EXPECT_EQ(after.weights_bytes, 0);
}

// Whatever else an upload needs is kept from the one before it.
TEST_F(LoadUnloadTest, ALoadTakesTheLayersMemoryAlone) {
  const CanonicalWeights& layer = layers_[1];
  LoadWhole(backend_.get(), layer);
  const int64_t device = DeviceAllocationCount();
  const int64_t pinned = PinnedAllocationCount();
  LoadWhole(backend_.get(), layer);
  EXPECT_EQ(DeviceAllocationCount() - device, 1);
  EXPECT_EQ(PinnedAllocationCount() - pinned, 0);
}

}  // namespace
}  // namespace qgemm::cuda
