// SPDX-License-Identifier: Apache-2.0
//
// The prefill kernel against fp64, for every kind of layer it is offered for
// and tiles of every width, whole and split, and what it refuses.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "kernels/cuda/launch/gemm.h"
#include "kernels/cuda/plan/prefill_plan.h"
#include "kernels/cuda/plan/tile_plan.h"
#include "kernels/matrix/fp64_oracle.h"
#include "tests/kernels/cuda/device_layer.h"
#include "tests/kernels/cuda/oracle_rows.h"
#include "tests/kernels/cuda/prefill_recipes.h"
#include "tests/kernels/cuda/prefill_test.h"

namespace qgemm::cuda {
namespace {

// Rows and columns that end within a tile; one stage; fewer rows than a tile
// has and several sums of the tensor cores, the last one short. Fewer tiles
// than SMs: split ones have many parts.
constexpr PrefillShape kShapes[] = {{333, 1000}, {136, 70}, {20, 2500}};

// Elements of fp32, each rounded once.
std::vector<uint8_t> Rounded(const std::vector<uint8_t>& c, FloatType type) {
  const int64_t elements = static_cast<int64_t>(c.size()) / 4;
  std::vector<uint8_t> rounded(elements * SizeOf(type));
  for (int64_t i = 0; i < elements; ++i) {
    StoreFloat(type, LoadFloat(FloatType::kFloat32, &c[i * 4]),
               &rounded[i * SizeOf(type)]);
  }
  return rounded;
}

bool HasNan(const std::vector<uint8_t>& c) {
  for (size_t i = 0; i < c.size(); i += 4) {
    if (std::isnan(LoadFloat(FloatType::kFloat32, &c[i]))) return true;
  }
  return false;
}

class PrefillGemmTest : public PrefillTest {
 protected:
  struct Sampling {
    std::vector<int64_t> rows;  // values of m
    int64_t column_stride;      // columns of C that are compared
  };

  void ExpectWithinTolerance(const PrefillShape& shape, FloatType a_type,
                             const Sampling& sampling) {
    ExpectWithinTolerance(Layer(shape), a_type, sampling);
  }
  void ExpectWithinTolerance(const CanonicalWeights& weights, FloatType a_type,
                             const Sampling& sampling) {
    const int64_t n = weights.header().n;
    const DevicePrefill gemm(weights, device_, a_type, &random_);
    ASSERT_TRUE(OffersPrefill(gemm.layout(), device_.traits));
    const MatmulSignature signature = {a_type, FloatType::kFloat32};
    const int64_t stride = std::min(sampling.column_stride, n);
    const int64_t most =
        *std::max_element(sampling.rows.begin(), sampling.rows.end());
    const OracleProduct oracle =
        Fp64Matmul(weights, signature,
                   absl::MakeConstSpan(gemm.a()).first(
                       most * weights.header().k * SizeOf(a_type)),
                   most, {RandomInt(0, stride - 1, &random_), stride});
    for (const PrefillTiling& tiling : Tilings(gemm.layout())) {
      for (const int64_t m : sampling.rows) {
        const OracleReport report = CompareWithOracle(
            FirstRows(oracle, m), weights.header(), signature,
            gemm.Multiply(gemm.Operands(m, signature.c_type), tiling));
        EXPECT_EQ(report.ToStatus(), absl::OkStatus())
            << Name(a_type) << ", m n k = " << m << " " << n << " "
            << weights.header().k << ", " << tiling;
      }
    }
  }
};

class PrefillWideScalesTest : public PrefillGemmTest {};

// Rows whose scales differ by a factor of 2^25 at most, all in one layer.
TEST_P(PrefillWideScalesTest, AreWithinTheTolerance) {
  CanonicalWeights weights = Layer(kShapes[0]);
  const WeightsHeader& header = weights.header();
  const int64_t groups = header.groups_per_row();
  std::vector<uint8_t> scales(header.n * groups * sizeof(uint16_t));
  for (int64_t i = 0; i < header.n * groups; ++i) {
    const float scale = 1 + 0.9f * RandomSigned(&random_);
    const int exponent = static_cast<int>(i / groups % 25) - 15;
    StoreFloat(FloatType::kFloat16, std::ldexp(scale, exponent),
               &scales[i * sizeof(uint16_t)]);
  }
  ASSERT_EQ(weights.WriteScales({0, header.n, 0, groups, scales}),
            absl::OkStatus());
  for (const FloatType type : {FloatType::kFloat16, FloatType::kBFloat16}) {
    ExpectWithinTolerance(weights, type, {{64, 300}, 1});
  }
}

TEST_P(PrefillGemmTest, IsWithinTheTolerance) {
  for (const PrefillShape& shape : kShapes) {
    for (const FloatType type : {FloatType::kFloat16, FloatType::kBFloat16}) {
      ExpectWithinTolerance(
          shape, type,
          {{std::begin(kPrefillTestRows), std::end(kPrefillTestRows)}, 7});
    }
  }
}

// More tiles than SMs: a block takes several. Of split tiles it has an end,
// whole ones and a begin.
TEST_P(PrefillGemmTest, ManyTilesAreWithinTheTolerance) {
  ExpectWithinTolerance({6007, 392}, RandomType(),
                        {{DevicePrefill::kMaxM}, 61});
}

// As layers are laid out for GPUs of few SMs, which is in stages of
// every height: a block's rows begin and end anywhere in them.
TEST_P(PrefillGemmTest, AnyStageIsWithinTheTolerance) {
  device_.traits.sm_count = 8;
  std::set<int> seen;
  for (int64_t n = 13; n < 1000; n += kTileRows) {
    const PrefillShape shape = {n, 384};
    WeightsHeader header = GetParam().header;
    header.n = shape.n;
    header.k = shape.k;
    if (header.group_size == 0) header.group_size = shape.k;
    const auto layout = PlanTileLayout(header, device_.traits);
    ASSERT_TRUE(layout.ok()) << layout.status();
    if (!seen.insert(layout->tile_config.n_tiles).second) continue;
    ExpectWithinTolerance(shape, RandomType(), {{129}, 7});
  }
  EXPECT_EQ(static_cast<int>(seen.size()), kMaxNTiles);
}

// Every element is stored: what is not is a NaN.
TEST_P(PrefillGemmTest, ResultsAreRoundedOnce) {
  for (const PrefillShape& shape : {kShapes[0], kShapes[1]}) {
    const DevicePrefill gemm = Gemm(shape);
    for (const PrefillTiling& tiling : Tilings(gemm.layout())) {
      for (const int64_t m : kPrefillTestRows) {
        const std::vector<uint8_t> exact =
            gemm.Multiply(gemm.Operands(m, FloatType::kFloat32), tiling);
        EXPECT_FALSE(HasNan(exact))
            << "m n = " << m << " " << shape.n << ", " << tiling;
        for (const FloatType type :
             {FloatType::kFloat16, FloatType::kBFloat16}) {
          EXPECT_TRUE(gemm.Multiply(gemm.Operands(m, type), tiling) ==
                      Rounded(exact, type))
              << Name(type) << ", m n = " << m << " " << shape.n << ", "
              << tiling;
        }
      }
    }
  }
}

// Rows that begin at a multiple of 16 bytes if C does, and C that does not.
TEST_P(PrefillGemmTest, CMayStandAnywhere) {
  const DevicePrefill gemm = Gemm({264, 200});
  for (const FloatType type :
       {FloatType::kFloat16, FloatType::kBFloat16, FloatType::kFloat32}) {
    const GemmOperands operands = gemm.Operands(300, type);
    for (const PrefillTiling& tiling : Tilings(gemm.layout())) {
      const std::vector<uint8_t> aligned = gemm.Multiply(operands, tiling);
      for (const int64_t elements : {1, 2, 3, 4, 5}) {
        EXPECT_TRUE(gemm.Multiply(operands, tiling, elements * SizeOf(type)) ==
                    aligned)
            << Name(type) << ", " << elements << ", " << tiling;
      }
    }
  }
}

TEST_P(PrefillGemmTest, ChoosesAWidthThatIsOffered) {
  const DevicePrefill gemm = Gemm({333, 256});
  for (const int64_t m : kPrefillTestRows) {
    const PrefillTiling tiling =
        EstimatePrefill(gemm.layout(), m, device_.traits).tiling;
    EXPECT_TRUE(OffersPrefill(gemm.layout(), device_.traits, tiling.tile_m))
        << tiling;
    const GemmOperands operands = gemm.Operands(m, FloatType::kFloat32);
    EXPECT_TRUE(gemm.Multiply(operands, {}) == gemm.Multiply(operands, tiling))
        << "m = " << m << ", " << tiling;
  }
}

TEST_P(PrefillGemmTest, RefusesWhatIsIllegal) {
  const DevicePrefill gemm = Gemm({64, 256});
  GemmOperands legal = gemm.Operands(65, FloatType::kFloat16);
  const DeviceBuffer c = Allocate(gemm.ResultBytes(legal));
  legal.c = c.data();
  const auto code_with = [&](auto change) {
    GemmOperands operands = legal;
    change(operands);
    return LaunchPrefillGemm(device_, operands, nullptr);
  };
  EXPECT_EQ(code_with([](GemmOperands&) {}), cudaSuccess);
  const cudaError_t refused = cudaErrorInvalidValue;
  EXPECT_EQ(code_with([](GemmOperands& g) { g.m = 0; }), refused);
  EXPECT_EQ(code_with([](GemmOperands& g) { g.m = -1; }), refused);
  EXPECT_EQ(code_with([](GemmOperands& g) { g.m = int64_t{1} << 40; }),
            refused);
  EXPECT_EQ(code_with([](GemmOperands& g) { g.lda += 4; }), refused);
  EXPECT_EQ(code_with([](GemmOperands& g) { g.lda = 248; }), refused);
  EXPECT_EQ(code_with([](GemmOperands& g) {
              g.a = static_cast<const uint8_t*>(g.a) + 8;
            }),
            refused);
  EXPECT_EQ(code_with([](GemmOperands& g) { g.a_type = FloatType::kFloat32; }),
            refused);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST_P(PrefillGemmTest, RefusesOtherWidths) {
  const DevicePrefill gemm = Gemm({64, 256});
  GemmOperands operands = gemm.Operands(65, FloatType::kFloat16);
  const DeviceBuffer c = Allocate(gemm.ResultBytes(operands));
  operands.c = c.data();
  for (const int tile_m : {-1, 1, 8, 32, 64, 96, 128, 192, 256, 512}) {
    EXPECT_EQ(LaunchPrefillGemm(device_, operands, nullptr, {tile_m}),
              OffersPrefill(gemm.layout(), device_.traits, tile_m)
                  ? cudaSuccess
                  : cudaErrorInvalidValue)
        << tile_m;
  }
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

INSTANTIATE_TEST_SUITE_P(Recipes, PrefillGemmTest,
                         testing::ValuesIn(PrefillRecipes()), NameOfRecipe);

std::vector<WeightsRecipe> Float16ScaleRecipes() {
  std::vector<WeightsRecipe> recipes = PrefillRecipes();
  recipes.erase(std::remove_if(recipes.begin(), recipes.end(),
                               [](const WeightsRecipe& recipe) {
                                 return recipe.header.scale_type !=
                                        ScaleType::kFloat16;
                               }),
                recipes.end());
  return recipes;
}
INSTANTIATE_TEST_SUITE_P(Recipes, PrefillWideScalesTest,
                         testing::ValuesIn(Float16ScaleRecipes()),
                         NameOfRecipe);

class PrefillGemmOtherTest : public PrefillTest {};

TEST_P(PrefillGemmOtherTest, HasNoKernel) {
  const DevicePrefill gemm = Gemm({64, 256});
  EXPECT_FALSE(OffersPrefill(gemm.layout(), device_.traits));
  EXPECT_TRUE(Tilings(gemm.layout()).empty());
  GemmOperands operands = gemm.Operands(65, FloatType::kFloat16);
  const DeviceBuffer c = Allocate(gemm.ResultBytes(operands));
  operands.c = c.data();
  for (const int tile_m : {0, 64, 128, 192, 256}) {
    EXPECT_EQ(LaunchPrefillGemm(device_, operands, nullptr, {tile_m}),
              cudaErrorInvalidValue)
        << tile_m;
  }
}

INSTANTIATE_TEST_SUITE_P(Recipes, PrefillGemmOtherTest,
                         testing::ValuesIn(OtherRecipes()), NameOfRecipe);

}  // namespace
}  // namespace qgemm::cuda
