// SPDX-License-Identifier: Apache-2.0
//
// The wide family against fp64, for every kind of layer it is offered for and
// tiles of every width, and what it refuses.

#include "kernels/cuda/launch/wqa16_wide.h"

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
#include "kernels/matrix/fp64_oracle.h"
#include "tests/kernels/cuda/device_layer.h"
#include "tests/kernels/cuda/oracle_rows.h"
#include "tests/kernels/cuda/wide_recipes.h"
#include "tests/kernels/cuda/wide_test.h"

namespace qgemm::cuda {
namespace {

// Rows and columns that end within a tile; one stage; fewer rows than a tile
// has and several sums of the tensor cores, the last one short.
constexpr WideShape kShapes[] = {{333, 1000}, {136, 70}, {20, 2500}};

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

class Wqa16WideTest : public WideTest {
 protected:
  struct Sampling {
    std::vector<int64_t> rows;  // values of m
    int64_t column_stride;      // columns of C that are compared
  };

  void ExpectWithinTolerance(const WideShape& shape, FloatType a_type,
                             const Sampling& sampling) {
    const CanonicalWeights weights = Layer(shape);
    const WideGemm gemm(weights, device_, a_type, &random_);
    ASSERT_TRUE(OffersWqa16Wide(gemm.layout()));
    const MatmulSignature signature = {a_type, FloatType::kFloat32};
    const int64_t stride = std::min(sampling.column_stride, shape.n);
    const int64_t most =
        *std::max_element(sampling.rows.begin(), sampling.rows.end());
    const OracleProduct oracle =
        Fp64Matmul(weights, signature,
                   absl::MakeConstSpan(gemm.a()).first(
                       most * weights.header().k * SizeOf(a_type)),
                   most, {RandomInt(0, stride - 1, &random_), stride});
    for (const int tokens : Widths(gemm.layout())) {
      for (const int64_t m : sampling.rows) {
        const OracleReport report = CompareWithOracle(
            FirstRows(oracle, m), weights.header(), signature,
            gemm.Multiply(gemm.Operands(m, signature.c_type), tokens));
        EXPECT_EQ(report.ToStatus(), absl::OkStatus())
            << Name(a_type) << ", m n k = " << m << " " << shape.n << " "
            << weights.header().k << ", tiles of " << tokens;
      }
    }
  }
};

TEST_P(Wqa16WideTest, IsWithinTheTolerance) {
  for (const WideShape& shape : kShapes) {
    for (const FloatType type : {FloatType::kFloat16, FloatType::kBFloat16}) {
      ExpectWithinTolerance(
          shape, type,
          {{std::begin(kWideTestRows), std::end(kWideTestRows)}, 7});
    }
  }
}

// More tiles than multiprocessors: a block takes several.
TEST_P(Wqa16WideTest, ManyTilesAreWithinTheTolerance) {
  ExpectWithinTolerance({6007, 392}, RandomType(), {{WideGemm::kMaxM}, 61});
}

// As layers are laid out for GPUs of few multiprocessors, which is in stages of
// every height: a block's rows begin and end anywhere in them.
TEST_P(Wqa16WideTest, AnyStageIsWithinTheTolerance) {
  device_.multiprocessors = 8;
  std::set<int> seen;
  for (int64_t n = 13; n < 1000; n += kTileRows) {
    const WideShape shape = {n, 384};
    WeightsHeader header = GetParam().header;
    header.n = shape.n;
    header.k = shape.k;
    if (header.group_size == 0) header.group_size = shape.k;
    const auto layout = TileLayoutOf(header, device_);
    ASSERT_TRUE(layout.ok()) << layout.status();
    if (!seen.insert(layout->partition.row_tiles).second) continue;
    ExpectWithinTolerance(shape, RandomType(), {{129}, 7});
  }
  EXPECT_EQ(static_cast<int>(seen.size()), kMaxRowTiles);
}

// Every element is stored: what is not is a NaN.
TEST_P(Wqa16WideTest, ResultsAreRoundedOnce) {
  for (const WideShape& shape : {kShapes[0], kShapes[1]}) {
    const WideGemm gemm = Gemm(shape);
    for (const int tokens : Widths(gemm.layout())) {
      for (const int64_t m : kWideTestRows) {
        const std::vector<uint8_t> exact =
            gemm.Multiply(gemm.Operands(m, FloatType::kFloat32), tokens);
        EXPECT_FALSE(HasNan(exact))
            << "m n = " << m << " " << shape.n << ", tiles of " << tokens;
        for (const FloatType type :
             {FloatType::kFloat16, FloatType::kBFloat16}) {
          EXPECT_TRUE(gemm.Multiply(gemm.Operands(m, type), tokens) ==
                      Rounded(exact, type))
              << Name(type) << ", m n = " << m << " " << shape.n
              << ", tiles of " << tokens;
        }
      }
    }
  }
}

// Rows that begin at a multiple of 16 bytes if C does, and C that does not.
TEST_P(Wqa16WideTest, CMayStandAnywhere) {
  const WideGemm gemm = Gemm({264, 200});
  for (const FloatType type :
       {FloatType::kFloat16, FloatType::kBFloat16, FloatType::kFloat32}) {
    const GemmOperands operands = gemm.Operands(300, type);
    for (const int tokens : Widths(gemm.layout())) {
      const std::vector<uint8_t> aligned = gemm.Multiply(operands, tokens);
      for (const int64_t elements : {1, 2, 3, 4, 5}) {
        EXPECT_TRUE(gemm.Multiply(operands, tokens, elements * SizeOf(type)) ==
                    aligned)
            << Name(type) << ", " << elements << ", tiles of " << tokens;
      }
    }
  }
}

TEST_P(Wqa16WideTest, ChoosesAWidthThatIsOffered) {
  const WideGemm gemm = Gemm({333, 256});
  for (const int64_t m : kWideTestRows) {
    const int tokens = Wqa16WideTokens(gemm.layout(), m);
    EXPECT_TRUE(OffersWqa16Wide(gemm.layout(), tokens)) << tokens;
    const GemmOperands operands = gemm.Operands(m, FloatType::kFloat32);
    EXPECT_TRUE(gemm.Multiply(operands, 0) == gemm.Multiply(operands, tokens))
        << "m = " << m << ", tiles of " << tokens;
  }
}

TEST_P(Wqa16WideTest, RefusesWhatIsIllegal) {
  const WideGemm gemm = Gemm({64, 256});
  GemmOperands legal = gemm.Operands(65, FloatType::kFloat16);
  const DeviceBuffer c = Allocate(gemm.ResultBytes(legal));
  legal.c = c.data();
  const auto code_with = [&](auto change) {
    GemmOperands operands = legal;
    change(operands);
    return LaunchWqa16Wide(operands, nullptr);
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

TEST_P(Wqa16WideTest, RefusesWidthsThatAreNotOffered) {
  const WideGemm gemm = Gemm({64, 256});
  GemmOperands operands = gemm.Operands(65, FloatType::kFloat16);
  const DeviceBuffer c = Allocate(gemm.ResultBytes(operands));
  operands.c = c.data();
  for (const int tokens : {-1, 1, 8, 32, 64, 96, 128, 192, 256, 512}) {
    EXPECT_EQ(LaunchWqa16Wide(operands, nullptr, tokens),
              OffersWqa16Wide(gemm.layout(), tokens) ? cudaSuccess
                                                     : cudaErrorInvalidValue)
        << tokens;
  }
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

INSTANTIATE_TEST_SUITE_P(Recipes, Wqa16WideTest,
                         testing::ValuesIn(WideRecipes()), NameOfRecipe);

class Wqa16WideOtherTest : public WideTest {};

TEST_P(Wqa16WideOtherTest, IsNotOffered) {
  const WideGemm gemm = Gemm({64, 256});
  EXPECT_FALSE(OffersWqa16Wide(gemm.layout()));
  EXPECT_TRUE(Widths(gemm.layout()).empty());
  GemmOperands operands = gemm.Operands(65, FloatType::kFloat16);
  const DeviceBuffer c = Allocate(gemm.ResultBytes(operands));
  operands.c = c.data();
  for (const int tokens : {0, 64, 128, 192, 256}) {
    EXPECT_EQ(LaunchWqa16Wide(operands, nullptr, tokens), cudaErrorInvalidValue)
        << tokens;
  }
}

INSTANTIATE_TEST_SUITE_P(Recipes, Wqa16WideOtherTest,
                         testing::ValuesIn(OtherRecipes()), NameOfRecipe);

}  // namespace
}  // namespace qgemm::cuda
