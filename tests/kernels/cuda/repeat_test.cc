// SPDX-License-Identifier: Apache-2.0
//
// A thousand launches give the same bits, for every kind of layer, with K in
// one part and in as many as the device takes.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "tests/kernels/cuda/device_decode.h"
#include "tests/kernels/cuda/device_layer.h"
#include "tests/kernels/cuda/device_test.h"

namespace qgemm::cuda {
namespace {

constexpr int kRepeats = 1000;
constexpr int kChunk = 50;  // results kept at one time

class RepeatTest : public DeviceTest,
                   public testing::WithParamInterface<WeightsRecipe> {
 protected:
  // Launches one after another, without a pause between them.
  static void ExpectEqualResults(const DeviceDecode& gemm, int64_t m) {
    const GemmBuffers buffers = gemm.NewBuffers(kChunk);
    std::vector<uint8_t> first;
    for (int repeat = 0; repeat < kRepeats; repeat += kChunk) {
      for (int i = 0; i < kChunk; ++i) {
        ASSERT_EQ(gemm.Enqueue(m, i, buffers, nullptr), cudaSuccess);
      }
      for (int i = 0; i < kChunk; ++i) {
        const std::vector<uint8_t> c = gemm.Read(m, i, buffers);
        if (first.empty()) first = c;
        ASSERT_TRUE(c == first)
            << "m = " << m << ", split_k = " << gemm.split_k() << ", repeat "
            << repeat + i;
      }
    }
  }

  RandomGenerator random_{FreshSeed()};
};

TEST_P(RepeatTest, GivesTheSameBitsAThousandTimes) {
  int most_splits = 0;
  for (const int split_k : {1, 2, 4, 8}) {
    const auto shape = ShapeWith(split_k, 1, device_.traits);
    if (!shape.has_value()) continue;
    most_splits = split_k;
    const DeviceDecode gemm(
        RandomWeights(GetParam(), shape->n, shape->k, &random_), device_,
        FloatType::kFloat16, &random_);
    ASSERT_EQ(gemm.split_k(), split_k);
    for (const int64_t m : {1, 16, 64}) ExpectEqualResults(gemm, m);
  }
  EXPECT_EQ(most_splits > 1, device_.traits.has_clusters());
}

INSTANTIATE_TEST_SUITE_P(Recipes, RepeatTest,
                         testing::ValuesIn(QuantizedRecipes()), NameOfRecipe);

}  // namespace
}  // namespace qgemm::cuda
