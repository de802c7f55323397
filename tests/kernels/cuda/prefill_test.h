// SPDX-License-Identifier: Apache-2.0
//
// The fixture of tests of the prefill kernel, one case a recipe: they skip
// themselves where there is no GPU, or none that has it.

#ifndef QGEMM_TESTS_KERNELS_CUDA_PREFILL_TEST_H_
#define QGEMM_TESTS_KERNELS_CUDA_PREFILL_TEST_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <ostream>
#include <vector>

#include "base/checked_math.h"
#include "gtest/gtest.h"
#include "kernels/cuda/launch/gemm.h"
#include "kernels/cuda/plan/prefill_plan.h"
#include "tests/kernels/cuda/device_prefill.h"
#include "tests/kernels/cuda/device_test.h"
#include "tests/support/random_weights.h"
#include "tests/support/seeds.h"

namespace qgemm::cuda {

// Values of m: within a tile of rows of A, of any width, at its end, behind it.
inline constexpr int64_t kPrefillTestRows[] = {
    1, 64, 65, 127, 128, 129, 256, 257, 300, DevicePrefill::kMaxM};

inline std::ostream& operator<<(std::ostream& out,
                                const PrefillTiling& tiling) {
  return out << (tiling.splits ? "split" : "whole") << " tiles of "
             << tiling.tile_m << (tiling.pairs ? " in pairs" : "");
}

struct PrefillShape {
  int64_t n;
  int64_t k;  // rounded up to what the recipe needs
};

class PrefillTest : public DeviceTest,
                    public testing::WithParamInterface<WeightsRecipe> {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (device_.traits.compute_capability != 90) {
      GTEST_SKIP() << "only Hopper has wgmma";
    }
    ASSERT_EQ(PreparePrefillGemm(device_), cudaSuccess);
  }

  CanonicalWeights Layer(const PrefillShape& shape) {
    return RandomWeights(GetParam(), shape.n,
                         RoundUp(shape.k, GetParam().k_multiple), &random_);
  }

  DevicePrefill Gemm(const PrefillShape& shape) {
    return DevicePrefill(Layer(shape), device_, RandomType(), &random_);
  }

  FloatType RandomType() {
    return RandomInt(0, 1, &random_) == 0 ? FloatType::kFloat16
                                          : FloatType::kBFloat16;
  }

  // Tiles of each width that the layer is offered with, whole and split, of
  // blocks and of pairs.
  std::vector<PrefillTiling> Tilings(const TileLayout& layout) const {
    std::vector<PrefillTiling> tilings;
    for (const int tile_m : kPrefillTileMs) {
      if (!OffersPrefill(layout, device_.traits, tile_m)) continue;
      for (const bool pairs : {false, true}) {
        tilings.push_back({tile_m, /*splits=*/false, pairs});
        tilings.push_back({tile_m, /*splits=*/true, pairs});
      }
    }
    return tilings;
  }

  RandomGenerator random_{FreshSeed()};
};

}  // namespace qgemm::cuda

#endif  // QGEMM_TESTS_KERNELS_CUDA_PREFILL_TEST_H_
