// SPDX-License-Identifier: Apache-2.0
//
// The fixture of tests of the wide family, one case a recipe: they skip
// themselves where there is no GPU, or none that has it.

#ifndef QGEMM_TESTS_KERNELS_CUDA_WIDE_TEST_H_
#define QGEMM_TESTS_KERNELS_CUDA_WIDE_TEST_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "base/checked_math.h"
#include "gtest/gtest.h"
#include "kernels/cuda/launch/wqa16_wide.h"
#include "kernels/cuda/tuning/wide_order.h"
#include "tests/kernels/cuda/device_test.h"
#include "tests/kernels/cuda/wide_gemm.h"
#include "tests/support/random_weights.h"
#include "tests/support/seeds.h"

namespace qgemm::cuda {

// Values of m: within a tile of tokens, of any width, at its end, behind it.
inline constexpr int64_t kWideTestRows[] = {
    1, 64, 65, 127, 128, 129, 256, 257, 300, WideGemm::kMaxM};

struct WideShape {
  int64_t n;
  int64_t k;  // rounded up to what the recipe needs
};

class WideTest : public DeviceTest,
                 public testing::WithParamInterface<WeightsRecipe> {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (device_.compute_capability != 90) {
      GTEST_SKIP() << "only Hopper has wgmma";
    }
    ASSERT_EQ(PrepareWqa16Wide(), cudaSuccess);
  }

  CanonicalWeights Layer(const WideShape& shape) {
    return RandomWeights(GetParam(), shape.n,
                         RoundUp(shape.k, GetParam().k_multiple), &random_);
  }

  WideGemm Gemm(const WideShape& shape) {
    return WideGemm(Layer(shape), device_, RandomType(), &random_);
  }

  FloatType RandomType() {
    return RandomInt(0, 1, &random_) == 0 ? FloatType::kFloat16
                                          : FloatType::kBFloat16;
  }

  // The widths of tiles that the layer is offered with.
  static std::vector<int> Widths(const TileLayout& layout) {
    std::vector<int> widths;
    for (const int tokens : kWideTokenCounts) {
      if (OffersWqa16Wide(layout, tokens)) widths.push_back(tokens);
    }
    return widths;
  }

  RandomGenerator random_{FreshSeed()};
};

}  // namespace qgemm::cuda

#endif  // QGEMM_TESTS_KERNELS_CUDA_WIDE_TEST_H_
