// SPDX-License-Identifier: Apache-2.0
//
// The smallest sweep of the decode kernel that reaches each of its parts:
// for tools that are slow, such as compute-sanitizer. Cases are named by the
// splits of K, which exchange sums between blocks, the row tiles of a block,
// and the recipe.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/matrix/fp64_oracle.h"
#include "tests/kernels/cuda/device_decode.h"
#include "tests/kernels/cuda/device_layer.h"
#include "tests/kernels/cuda/device_test.h"
#include "tests/kernels/cuda/oracle_rows.h"

namespace qgemm::cuda {
namespace {

// Columns of C that are compared: every seventh, from a random one on.
constexpr int64_t kColumnStride = 7;

constexpr int64_t kRows[] = {1, 9, 17, 33, 64, 130};

struct Shares {
  int split_k;  // of K
  int n_tiles;  // of a block
};

using SweepCase = std::tuple<Shares, WeightsRecipe>;

class SweepTest : public DeviceTest,
                  public testing::WithParamInterface<SweepCase> {
 protected:
  RandomGenerator random_{FreshSeed()};
};

// Multiplies a random layer as it is laid out for `device`, and compares.
void ExpectWithinTolerance(const WeightsRecipe& recipe, const LayerSize& shape,
                           const Device& device, RandomGenerator* random) {
  const MatmulSignature signature = {
      RandomInt(0, 1, random) == 0 ? FloatType::kFloat16 : FloatType::kBFloat16,
      FloatType::kFloat32};
  const CanonicalWeights weights =
      RandomWeights(recipe, shape.n, shape.k, random);
  const DeviceDecode gemm(weights, device, signature.a_type, random);
  const OracleColumns columns = {RandomInt(0, kColumnStride - 1, random),
                                 kColumnStride};
  const OracleProduct oracle =
      Fp64Matmul(weights, signature, gemm.a(), DeviceDecode::kMaxM, columns);
  const GemmBuffers buffers = gemm.NewBuffers(std::size(kRows));
  for (size_t i = 0; i < std::size(kRows); ++i) {
    ASSERT_EQ(gemm.Enqueue(kRows[i], i, buffers, nullptr), cudaSuccess);
    const OracleReport report =
        CompareWithOracle(FirstRows(oracle, kRows[i]), weights.header(),
                          signature, gemm.Read(kRows[i], i, buffers));
    EXPECT_EQ(report.ToStatus(), absl::OkStatus())
        << Name(signature.a_type) << ", m n k = " << kRows[i] << " " << shape.n
        << " " << shape.k;
  }
}

TEST_P(SweepTest, IsWithinTheTolerance) {
  const auto& [shares, recipe] = GetParam();
  const auto shape = ShapeWith(shares.split_k, shares.n_tiles, device_.traits);
  if (!shape.has_value()) GTEST_SKIP() << "no layer is shared out so here";
  ExpectWithinTolerance(recipe, *shape, device_, &random_);
}

INSTANTIATE_TEST_SUITE_P(
    Shares, SweepTest,
    testing::Combine(testing::Values(Shares{1, 1}, Shares{1, 4}, Shares{1, 8},
                                     Shares{2, 1}, Shares{2, 2}, Shares{4, 1},
                                     Shares{8, 1}),
                     testing::ValuesIn(QuantizedRecipes())),
    [](const auto& info) {
      const Shares& shares = std::get<0>(info.param);
      return absl::StrCat("split_k", shares.split_k, "_rows", shares.n_tiles,
                          "_", std::get<1>(info.param).name);
    });

// Layouts for chips before Hopper, which have no clusters and less shared
// memory. They run on later ones, too.
class OlderDeviceTest : public DeviceTest,
                        public testing::WithParamInterface<WeightsRecipe> {
 protected:
  RandomGenerator random_{FreshSeed()};
};

TEST_P(OlderDeviceTest, IsWithinTheToleranceAsLaidOutForSm80) {
  device_.traits.compute_capability = 80;
  device_.traits.sm_count = 108;
  device_.traits.shared_bytes_per_block = 163 << 10;
  ExpectWithinTolerance(GetParam(), {1000, 1536}, device_, &random_);
}

TEST_P(OlderDeviceTest, IsWithinTheToleranceAsLaidOutForSm89) {
  if (GetParam().header.bits == 5)
    GTEST_SKIP() << "the cuBLAS path multiplies 5 bits there";
  device_.traits.compute_capability = 89;
  device_.traits.sm_count = 128;
  device_.traits.shared_bytes_per_block = 99 << 10;
  ExpectWithinTolerance(GetParam(), {1000, 1536}, device_, &random_);
}

INSTANTIATE_TEST_SUITE_P(Recipes, OlderDeviceTest,
                         testing::ValuesIn(QuantizedRecipes()), NameOfRecipe);

}  // namespace
}  // namespace qgemm::cuda
