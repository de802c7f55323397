// SPDX-License-Identifier: Apache-2.0
//
// Mode A32: activations are split to the bit, results are within the mode's
// bound of fp64 in every tile config, and a row has the same bits however many
// are multiplied with it.

#include "kernels/cuda/launch/a32_gemm.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/checked_math.h"
#include "gtest/gtest.h"
#include "kernels/cuda/launch/split_rows.h"
#include "kernels/cuda/layout/a32_layout.h"
#include "kernels/cuda/plan/a32_plan.h"
#include "kernels/matrix/fp64_oracle.h"
#include "kernels/matrix/types.h"
#include "tests/kernels/cuda/decode_shapes.h"
#include "tests/kernels/cuda/device_layer.h"
#include "tests/kernels/cuda/device_test.h"
#include "tests/support/random_matrix.h"
#include "tests/support/seeds.h"

namespace qgemm::cuda {
namespace {

constexpr int64_t kMaxM = 70;
constexpr int64_t kRows[] = {1, 2, 3, 8, 9, 16, 17, 31, 32, 33, 64, 65};
constexpr FloatType kTypes[] = {FloatType::kFloat16, FloatType::kBFloat16,
                                FloatType::kFloat32};

std::vector<WeightsRecipe> WholeNumberRecipes() {
  std::vector<WeightsRecipe> recipes;
  for (const WeightsRecipe& recipe : QuantizedRecipes()) {
    if (recipe.header.integer_codes) recipes.push_back(recipe);
  }
  return recipes;
}

class A32Test : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_EQ(PrepareA32Gemm(device_), cudaSuccess);
  }

  RandomGenerator random_{FreshSeed()};
};

class SplitRowsTest : public A32Test {
 protected:
  // Splits `a` on the device and compares with SplitA32.
  void ExpectSplit(FloatType type, const std::vector<uint8_t>& a, int64_t m,
                   int64_t k, A32Pairs pairs) {
    std::vector<int32_t> permutation(k);
    std::iota(permutation.begin(), permutation.end(), 0);
    const bool permutes = RandomInt(0, 1, &random_) == 1;
    if (permutes) {
      std::shuffle(permutation.begin(), permutation.end(), random_);
    }
    const A32Layout layout = A32LayoutOf(m, k);
    const DeviceBuffer device_a = Upload(a);
    const DeviceBuffer device_permutation =
        Upload(permutation.data(), k * int64_t{sizeof(int32_t)});
    const DeviceBuffer out = AllocatePoisoned(layout.total_bytes());
    SplitRowsArgs args;
    args.a = device_a.data();
    args.a_type = type;
    args.m = m;
    args.k = k;
    if (permutes) {
      args.permutation =
          reinterpret_cast<const int32_t*>(device_permutation.data());
    }
    args.pairs = pairs;
    args.out = out.data();
    ASSERT_EQ(LaunchSplitRows(args, nullptr), cudaSuccess);
    const std::vector<uint8_t> split = Download(out);
    for (int64_t row = 0; row < m; ++row) {
      for (int64_t i = 0; i < layout.k_tiles * kTileColumns; ++i) {
        const int in_tile = static_cast<int>(i % kTileColumns);
        const int t = in_tile / 8 % 4;
        const int64_t column =
            i / kA32Block * kA32Block +
            A32ColumnIn(A32FormOf(layout.tile_m), t, in_tile % 8, pairs);
        float x = 0;
        if (column < k) {
          x = LoadFloat(type,
                        &a[(row * k + permutation[column]) * SizeOf(type)]);
        }
        const A32Float expected = SplitA32(A32BitsOf(x));
        for (int part = 0; part < kA32Parts; ++part) {
          const A32Place place = {static_cast<int>(row % layout.tile_m),
                                  in_tile / kA32Block, t, part};
          uint16_t actual;
          std::memcpy(&actual,
                      &split[layout.StageOffset(row, i / kTileColumns) +
                             A32Offset(place, layout.tile_m) + in_tile % 8 * 2],
                      2);
          ASSERT_EQ(actual, expected.parts[part])
              << "x = " << x << ", row " << row << ", column " << column
              << ", part " << part;
        }
      }
    }
  }
};

TEST_F(SplitRowsTest, SplitsToTheBit) {
  for (const FloatType type : kTypes) {
    for (const int64_t k : {1, 31, 128, 1000, 4096}) {
      for (const A32Pairs pairs : {A32Pairs::kNeighbours, A32Pairs::kEights}) {
        for (const int64_t m : {2, 7, 16, 33, 70}) {
          ExpectSplit(type, RandomMatrix(type, m, k, &random_), m, k, pairs);
        }
      }
    }
  }
}

TEST_F(SplitRowsTest, SplitsAnyBits) {
  constexpr int64_t kM = 9;
  constexpr int64_t kK = 4096;
  std::vector<uint8_t> a(kM * kK * 4);
  for (uint8_t& byte : a) {
    byte = static_cast<uint8_t>(RandomInt(0, 255, &random_));
  }
  constexpr uint32_t kHard[] = {0x00000001, 0x80000001, 0x007fffff, 0x00800000,
                                0x0080ffff, 0x7f7fffff, 0x7f800000, 0xff800000,
                                0x7f800001, 0xffc00000, 0x80000000, 0x0000ffff};
  std::memcpy(a.data(), kHard, sizeof(kHard));
  ExpectSplit(FloatType::kFloat32, a, kM, kK, A32Pairs::kEights);
}

class A32GemmTest : public A32Test {
 protected:
  static constexpr FloatType kResult = FloatType::kFloat32;

  // C[m, n] in fp32 of the first m rows of A.
  static std::vector<uint8_t> Multiply(const CudaWeights& resident,
                                       const DeviceBuffer& a, FloatType type,
                                       int64_t m) {
    const DeviceBuffer split =
        AllocatePoisoned(A32LayoutOf(m, resident.k()).total_bytes());
    const DeviceBuffer c = AllocatePoisoned(m * resident.n() * SizeOf(kResult));
    A32Operands operands;
    operands.weights = resident.tiled();
    operands.a = a.data();
    operands.a_type = type;
    operands.split = split.data();
    operands.c = c.data();
    operands.c_type = kResult;
    operands.m = m;
    CHECK_EQ(LaunchA32Gemm(operands, nullptr), cudaSuccess);
    return Download(c);
  }

  // All rows against fp64, of a wide layer every seventh column; then fewer
  // rows against those.
  void ExpectRight(const CanonicalWeights& weights, FloatType type,
                   const std::vector<uint8_t>& a, int64_t m) {
    const int64_t n = weights.header().n;
    const auto resident = Load(weights, device_.traits);
    const DeviceBuffer device_a = Upload(a);
    const std::vector<uint8_t> c = Multiply(*resident, device_a, type, m);
    const MatmulSignature signature = {type, kResult, ComputeMode::kA32};
    OracleColumns columns;
    if (n > 100) {
      columns.first = RandomInt(0, 6, &random_);
      columns.stride = 7;
    }
    const OracleReport report =
        CompareWithOracle(Fp64Matmul(weights, signature, a, m, columns),
                          weights.header(), signature, c);
    EXPECT_EQ(report.ToStatus(), absl::OkStatus())
        << Name(type) << ", m n k = " << m << " " << n << " "
        << weights.header().k;
    worst_ratio_ = std::max(worst_ratio_, report.worst_ratio);
    for (const int64_t fewer : kRows) {
      if (fewer >= m) break;
      const std::vector<uint8_t> some =
          Multiply(*resident, device_a, type, fewer);
      EXPECT_TRUE(std::equal(some.begin(), some.end(), c.begin()))
          << "the first " << fewer << " rows of " << m
          << " have other bits by themselves, n k = " << n << " "
          << weights.header().k;
    }
  }

  void ExpectRight(const WeightsRecipe& recipe, const LayerSize& size,
                   FloatType type, int64_t m = kMaxM) {
    SCOPED_TRACE(recipe.name);
    const CanonicalWeights weights =
        RandomWeights(recipe, size.n, size.k, &random_);
    ExpectRight(weights, type, RandomMatrix(type, m, size.k, &random_), m);
  }

  // The least and the largest exponent of elements.
  using Exponents = std::pair<int, int>;

  // Few elements are large, the others small.
  void ExpectRightWithFew(const Exponents& large, const Exponents& small) {
    constexpr int64_t kM = 33;
    constexpr int64_t kK = 640;
    for (const WeightsRecipe& recipe : WholeNumberRecipes()) {
      SCOPED_TRACE(recipe.name);
      std::vector<uint8_t> a =
          RandomMatrix(FloatType::kFloat32, kM, kK, &random_);
      for (int64_t i = 0; i < kM * kK; ++i) {
        const auto& [least, most] =
            RandomInt(0, 255, &random_) == 0 ? large : small;
        const int exponent = static_cast<int>(RandomInt(least, most, &random_));
        const float x = LoadFloat(FloatType::kFloat32, &a[i * 4]);
        StoreFloat(FloatType::kFloat32, std::ldexp(x, exponent), &a[i * 4]);
      }
      ExpectRight(RandomWeights(recipe, 50, kK, &random_), FloatType::kFloat32,
                  a, kM);
    }
  }

  double worst_ratio_ = 0;  // to the bound
};

TEST_F(A32GemmTest, IsRightInEveryTileConfig) {
  const std::vector<WeightsRecipe> recipes = WholeNumberRecipes();
  for (const int split_k : {1, 2, 4, 8}) {
    for (const int n_tiles : {1, 2, 4, 8, 12, 16}) {
      const auto size = ShapeWith(split_k, n_tiles, device_.traits);
      if (!size.has_value()) continue;
      ExpectRight(RandomElement(recipes, &random_), *size, FloatType::kFloat32);
    }
  }
  RecordProperty("worst_ratio", std::to_string(worst_ratio_));
}

TEST_F(A32GemmTest, IsRightForEveryKindOfLayer) {
  for (const WeightsRecipe& recipe : WholeNumberRecipes()) {
    for (const int64_t k : {1, 33, 160, 1000}) {
      ExpectRight(recipe,
                  {RandomInt(1, 90, &random_), RoundUp(k, recipe.k_multiple)},
                  RandomElement(kTypes, &random_));
    }
  }
}

TEST_F(A32GemmTest, IsRightForAVeryLongK) {
  for (const WeightsRecipe& recipe : WholeNumberRecipes()) {
    ExpectRight(recipe, {20, int64_t{1} << 17}, FloatType::kFloat32, 9);
  }
}

// Rounding errors of one sign: each sum is larger than the one before.
TEST_F(A32GemmTest, IsRightWhereErrorsAddUp) {
  constexpr int64_t kM = 9;
  constexpr int64_t kK = 28672;
  for (const WeightsRecipe& recipe : WholeNumberRecipes()) {
    SCOPED_TRACE(recipe.name);
    const CanonicalWeights weights = RandomWeights(recipe, 20, kK, &random_);
    std::vector<uint8_t> a =
        RandomMatrix(FloatType::kFloat32, kM, kK, &random_);
    // The signs of row 0 of W, so that its products are positive.
    for (int64_t column = 0; column < kK; ++column) {
      const float sign = weights.Weight(0, column) < 0 ? -1 : 1;
      const int64_t feature = weights.InputFeature(column);
      for (int64_t row = 0; row < kM; ++row) {
        uint8_t* const place = &a[(row * kK + feature) * 4];
        const float x = std::fabs(LoadFloat(FloatType::kFloat32, place));
        StoreFloat(FloatType::kFloat32, sign * x, place);
      }
    }
    ExpectRight(weights, FloatType::kFloat32, a, kM);
  }
}

// Results whose weights are 0 where the large elements are depend on the small
// ones.
TEST_F(A32GemmTest, IsRightForElementsOfAnyMagnitude) {
  ExpectRightWithFew({40, 60}, {-40, 0});
}

// Tensor cores that aligned sums to the factors' exponents, 110 - 126 where 0
// multiplies 2^110, and not to those of products, would lose the small ones.
TEST_F(A32GemmTest, IsRightForSmallElementsBesideHugeOnes) {
  ExpectRightWithFew({100, 110}, {-80, -40});
}

TEST_F(A32GemmTest, HasValuesThatAreNotFiniteWhereFp64HasThem) {
  constexpr int64_t kM = 19;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const WeightsRecipe& recipe : WholeNumberRecipes()) {
    SCOPED_TRACE(recipe.name);
    const int64_t k = RoundUp(320, recipe.k_multiple);
    std::vector<uint8_t> a = RandomMatrix(FloatType::kFloat32, kM, k, &random_);
    const std::pair<int64_t, float> strikes[] = {
        {0, kInfinity}, {1, -kInfinity}, {3, std::nanf("")},
        {7, kInfinity}, {7, -kInfinity}, {18, 1e30f}};
    for (const auto& [row, value] : strikes) {
      const int64_t column = RandomInt(0, k - 1, &random_);
      StoreFloat(FloatType::kFloat32, value, &a[(row * k + column) * 4]);
    }
    const CanonicalWeights weights = RandomWeights(recipe, 40, k, &random_);
    const auto resident = Load(weights, device_.traits);
    const MatmulSignature signature = {FloatType::kFloat32, kResult,
                                       ComputeMode::kA32};
    const std::vector<uint8_t> c =
        Multiply(*resident, Upload(a), FloatType::kFloat32, kM);
    EXPECT_EQ(CompareWithOracle(Fp64Matmul(weights, signature, a, kM),
                                weights.header(), signature, c)
                  .ToStatus(),
              absl::OkStatus());
  }
}

TEST_F(A32GemmTest, RefusesLayersThatItDoesNotMultiply) {
  for (const WeightsRecipe& recipe : QuantizedRecipes()) {
    const auto resident =
        Load(RandomWeights(recipe, 16, 256, &random_), device_.traits);
    const DeviceBuffer a = Allocate(A32LayoutOf(1, 256).total_bytes());
    const DeviceBuffer c = Allocate(64);
    A32Operands operands;
    operands.weights = resident->tiled();
    operands.a = a.data();
    operands.split = a.data();
    operands.c = c.data();
    operands.m = kMaxA32M + 1;
    EXPECT_EQ(LaunchA32Gemm(operands, nullptr), cudaErrorInvalidValue);
    if (OffersA32(resident->tiled().layout)) continue;
    EXPECT_FALSE(recipe.header.integer_codes) << recipe.name;
    operands.m = 1;
    EXPECT_EQ(LaunchA32Gemm(operands, nullptr), cudaErrorInvalidValue)
        << recipe.name;
  }
}

}  // namespace
}  // namespace qgemm::cuda
