// SPDX-License-Identifier: Apache-2.0
//
// The oracle against products worked out by hand, and that its comparison
// refuses what it must.

#include "kernels/matrix/fp64_oracle.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/check.h"
#include "gtest/gtest.h"
#include "tests/support/random_matrix.h"
#include "tests/support/random_weights.h"

namespace qgemm {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<uint8_t> Bytes(FloatType type, const std::vector<double>& values) {
  std::vector<uint8_t> bytes(values.size() * SizeOf(type));
  for (size_t i = 0; i < values.size(); ++i) {
    StoreFloat(type, static_cast<float>(values[i]), &bytes[i * SizeOf(type)]);
  }
  return bytes;
}

MatmulSignature Signature(FloatType a_type, FloatType c_type,
                          ComputeMode mode = ComputeMode::kA16) {
  return {a_type, c_type, mode, FloatType::kBFloat16};
}

// W = {{1, 2, -3}, {0.5, 0, 4}}, bias {10, -1}.
CanonicalWeights SmallDense() {
  CanonicalWeights weights;
  WeightsHeader header;
  header.kind = WeightsHeader::Kind::kDense;
  header.n = 2;
  header.k = 3;
  header.bias = {10, -1};
  CHECK_OK(weights.Begin(header));
  const std::vector<uint8_t> elements =
      Bytes(FloatType::kFloat16, {1, 2, -3, 0.5, 0, 4});
  CHECK_OK(weights.WriteDense({0, 2, elements}));
  return weights;
}

TEST(Fp64MatmulTest, GivesTheProductAndItsMagnitude) {
  const MatmulSignature signature =
      Signature(FloatType::kFloat16, FloatType::kFloat32);
  const OracleProduct product =
      Fp64Matmul(SmallDense(), signature,
                 Bytes(FloatType::kFloat16, {1, 1, 1, 2, -1, 0.5}), 2);
  EXPECT_EQ(product.values, (std::vector<double>{10, 3.5, 8.5, 2}));
  EXPECT_EQ(product.magnitudes, (std::vector<double>{16, 5.5, 15.5, 4}));
}

TEST(Fp64MatmulTest, ComputesTheColumnsThatWereSampled) {
  const MatmulSignature signature =
      Signature(FloatType::kFloat16, FloatType::kFloat32);
  const OracleProduct product =
      Fp64Matmul(SmallDense(), signature, Bytes(FloatType::kFloat16, {1, 1, 1}),
                 1, {1, 5});
  EXPECT_EQ(product.columns, (std::vector<int64_t>{1}));
  EXPECT_EQ(product.values, (std::vector<double>{3.5}));
}

// A row of A with a single 1 reads single weights.
TEST(Fp64MatmulTest, ReadsTheWeightOfEachInputFeature) {
  RandomGenerator random(FreshSeed());
  const MatmulSignature signature =
      Signature(FloatType::kFloat16, FloatType::kFloat32);
  for (const WeightsRecipe& recipe : AllWeightsRecipes()) {
    constexpr int64_t kK = 256;
    const CanonicalWeights weights = RandomWeights(recipe, 3, kK, &random);
    const int64_t column = RandomInt(0, kK - 1, &random);
    std::vector<double> one_hot(kK, 0.0);
    one_hot[weights.InputFeature(column)] = 1;
    const OracleProduct product =
        Fp64Matmul(weights, signature, Bytes(FloatType::kFloat16, one_hot), 1);
    for (int64_t row = 0; row < 3; ++row) {
      const double bias = recipe.has_bias ? weights.header().bias[row] : 0;
      EXPECT_EQ(product.values[row], weights.Weight(row, column) + bias)
          << recipe.name;
    }
  }
}

TEST(EffectiveActivationsTest, RoundFp32OnceInA16) {
  MatmulSignature signature =
      Signature(FloatType::kFloat32, FloatType::kFloat32);
  const std::vector<uint8_t> a =
      Bytes(FloatType::kFloat32, {1 + 0x1p-9, 1 + 0x1p-6, 70000});
  EXPECT_EQ(EffectiveActivations(signature, a, 1, 3),
            (std::vector<double>{1, 1 + 0x1p-6, 70144}));
  signature.rounding = FloatType::kFloat16;
  EXPECT_EQ(EffectiveActivations(signature, a, 1, 3),
            (std::vector<double>{1 + 0x1p-9, 1 + 0x1p-6, kInfinity}));
}

TEST(EffectiveActivationsTest, KeepFp32InA32) {
  const std::vector<uint8_t> a = Bytes(FloatType::kFloat32, {1 + 0x1p-23});
  EXPECT_EQ(
      EffectiveActivations(Signature(FloatType::kFloat32, FloatType::kFloat32,
                                     ComputeMode::kA32),
                           a, 1, 1),
      (std::vector<double>{1 + 0x1p-23}));
}

TEST(EffectiveActivationsTest, QuantizeBlocksOf32InA8) {
  std::vector<double> row(40, 0.0);
  row[0] = 127;  // the block's d is 1
  row[1] = 2.5;
  row[2] = -2.5;
  row[3] = 0.4;
  row[32] = 2 * 127;  // the short block's is 2
  row[33] = 2.75;
  std::vector<double> expected(40, 0.0);
  expected[0] = 127;
  expected[1] = 3;
  expected[2] = -3;
  expected[32] = 254;
  expected[33] = 2;
  EXPECT_EQ(
      EffectiveActivations(
          Signature(FloatType::kFloat32, FloatType::kFloat32, ComputeMode::kA8),
          Bytes(FloatType::kFloat32, row), 1, 40),
      expected);
}

TEST(EffectiveActivationsTest, AreNanThroughoutAQ81BlockWithInfinity) {
  std::vector<double> row(64, 1.0);
  row[5] = kInfinity;
  const std::vector<double> effective = EffectiveActivations(
      Signature(FloatType::kFloat16, FloatType::kFloat32, ComputeMode::kA8),
      Bytes(FloatType::kFloat16, row), 1, 64);
  for (int64_t i = 0; i < 64; ++i) {
    EXPECT_EQ(std::isnan(effective[i]), i < 32) << i;
  }
}

// A product of one element in a layer of the given kind and K = 64.
class CompareTest : public testing::Test {
 protected:
  static constexpr int64_t kK = 64;

  CompareTest() {
    header_ = WeightsRecipeNamed("q4_0").header;
    header_.n = 1;
    header_.k = kK;
  }

  OracleReport Compare(double expected, double actual,
                       const MatmulSignature& signature) {
    OracleProduct oracle;
    oracle.rows = 1;
    oracle.columns = {0};
    oracle.values = {expected};
    oracle.magnitudes = {std::isfinite(expected) ? std::abs(expected) : kNan};
    return CompareWithOracle(oracle, header_, signature,
                             Bytes(signature.c_type, {actual}));
  }

  const WeightsHeader& header() const { return header_; }

 private:
  WeightsHeader header_;
};

TEST_F(CompareTest, PassesUpToTheBoundAndNotBeyond) {
  for (const ComputeMode mode :
       {ComputeMode::kA16, ComputeMode::kA8, ComputeMode::kA32}) {
    const MatmulSignature signature =
        Signature(FloatType::kFloat16, FloatType::kFloat32, mode);
    const double bound = RelativeErrorBound(header(), signature);
    // fp32 output adds up to 2^-24 to the bound of at least 2^-21.
    EXPECT_TRUE(Compare(1, 1 + bound * 0.9, signature).passed());
    EXPECT_TRUE(Compare(1, 1 - bound * 0.9, signature).passed());
    EXPECT_FALSE(Compare(1, 1 + bound * 1.2, signature).passed());
    EXPECT_FALSE(Compare(1, 1 - bound * 1.2, signature).passed());
  }
}

TEST_F(CompareTest, AllowsOneRoundingOfTheOutput) {
  const MatmulSignature signature =
      Signature(FloatType::kFloat32, FloatType::kBFloat16, ComputeMode::kA32);
  constexpr double kStep = 0x1p-7;  // of bf16 above 1
  EXPECT_TRUE(Compare(1 + 0.4 * kStep, 1, signature).passed());
  EXPECT_FALSE(Compare(1 + 0.4 * kStep, 1 + kStep, signature).passed());
}

TEST_F(CompareTest, RefusesAZeroedElement) {
  const MatmulSignature signature =
      Signature(FloatType::kBFloat16, FloatType::kBFloat16);
  EXPECT_FALSE(Compare(0.01, 0, signature).passed());
}

TEST_F(CompareTest, WantsNanForNanAndTheSameInfinity) {
  const MatmulSignature signature =
      Signature(FloatType::kFloat16, FloatType::kFloat32);
  EXPECT_TRUE(Compare(kNan, kNan, signature).passed());
  EXPECT_TRUE(Compare(kInfinity, kInfinity, signature).passed());
  EXPECT_FALSE(Compare(kNan, kInfinity, signature).passed());
  EXPECT_FALSE(Compare(kInfinity, -kInfinity, signature).passed());
  EXPECT_FALSE(Compare(kInfinity, kNan, signature).passed());
  EXPECT_FALSE(Compare(1, kNan, signature).passed());
  EXPECT_FALSE(Compare(1, kInfinity, signature).passed());
  EXPECT_FALSE(Compare(kNan, 1, signature).passed());
}

TEST_F(CompareTest, TakesAnyNonFiniteForNanInA8) {
  const MatmulSignature signature =
      Signature(FloatType::kFloat16, FloatType::kFloat32, ComputeMode::kA8);
  EXPECT_TRUE(Compare(kNan, -kInfinity, signature).passed());
  EXPECT_FALSE(Compare(kNan, 0, signature).passed());
}

TEST_F(CompareTest, WantsInfinityWhereTheOutputOverflows) {
  const MatmulSignature signature =
      Signature(FloatType::kFloat16, FloatType::kFloat16);
  EXPECT_TRUE(Compare(70000, kInfinity, signature).passed());
  EXPECT_FALSE(Compare(70000, 65504, signature).passed());
  EXPECT_FALSE(Compare(60000, kInfinity, signature).passed());
}

TEST_F(CompareTest, NamesTheWorstElement) {
  CanonicalWeights weights = SmallDense();
  const MatmulSignature signature =
      Signature(FloatType::kFloat16, FloatType::kFloat32);
  const OracleProduct oracle = Fp64Matmul(
      weights, signature, Bytes(FloatType::kFloat16, {1, 1, 1, 2, -1, 0.5}), 2);
  const OracleReport report =
      CompareWithOracle(oracle, weights.header(), signature,
                        Bytes(FloatType::kFloat32, {10, 3.5, 9, 2}));
  EXPECT_EQ(report.compared, 4);
  EXPECT_EQ(report.row, 1);
  EXPECT_EQ(report.column, 0);
  EXPECT_EQ(report.expected, 8.5);
  EXPECT_EQ(report.actual, 9);
  EXPECT_EQ(report.ToStatus().code(), absl::StatusCode::kDataLoss);
}

TEST_F(CompareTest, TellsTheNormOfTheError) {
  CanonicalWeights weights = SmallDense();
  const MatmulSignature signature =
      Signature(FloatType::kFloat16, FloatType::kFloat32);
  const OracleProduct oracle =
      Fp64Matmul(weights, signature, Bytes(FloatType::kFloat16, {0, 0, 0}), 1);
  ASSERT_EQ(oracle.values, (std::vector<double>{10, -1}));
  const OracleReport report =
      CompareWithOracle(oracle, weights.header(), signature,
                        Bytes(FloatType::kFloat32, {13, -5}));
  EXPECT_DOUBLE_EQ(report.relative_norm, 5 / std::sqrt(101.0));
}

}  // namespace
}  // namespace qgemm
