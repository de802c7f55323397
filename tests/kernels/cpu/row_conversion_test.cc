// SPDX-License-Identifier: Apache-2.0
//
// Rows come out in column order, padded, rounded as the mode says, and
// quantized as Q8_1 is defined.

#include "kernels/cpu/row_conversion.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/microkernel_table.h"
#include "tests/support/random_matrix.h"
#include "tests/support/seeds.h"

namespace qgemm::cpu {
namespace {

constexpr int64_t kPadded = 64;

struct Prepared {
  double factor;
  std::vector<float> values;
};

Prepared PrepareBytes(const MatmulSignature& signature,
                      const std::vector<uint8_t>& row, int64_t k,
                      const std::vector<int32_t>& permutation) {
  const MicrokernelTable table = TableOf(SupportedCpuIsas().back());
  RowSource source{signature, table.half_conversions, k, permutation};
  std::vector<float> scratch(k);
  Prepared prepared;
  prepared.values.assign(kPadded, -1);
  prepared.factor = PrepareRow(source, row.data(), kPadded, scratch.data(),
                               prepared.values.data());
  return prepared;
}

std::vector<uint8_t> BytesOf(const std::vector<float>& values) {
  std::vector<uint8_t> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

MatmulSignature SingleSignature(ComputeMode mode) {
  return {FloatType::kFloat32, FloatType::kFloat32, mode, FloatType::kBFloat16};
}

class RowPreparationTest : public testing::TestWithParam<FloatType> {};

TEST_P(RowPreparationTest, ConvertsGathersAndPads) {
  RandomGenerator random(FreshSeed());
  const int64_t k = 37;
  std::vector<int32_t> permutation(k);
  for (int64_t i = 0; i < k; ++i) permutation[i] = (i * 5 + 3) % k;
  const std::vector<uint8_t> row = RandomMatrix(GetParam(), 1, k, &random);
  MatmulSignature signature = SingleSignature(ComputeMode::kA32);
  signature.a_type = GetParam();
  const Prepared prepared = PrepareBytes(signature, row, k, permutation);
  EXPECT_EQ(prepared.factor, 1);
  for (int64_t i = 0; i < k; ++i) {
    EXPECT_EQ(
        prepared.values[i],
        LoadFloat(GetParam(), row.data() + permutation[i] * SizeOf(GetParam())))
        << i;
  }
  for (int64_t i = k; i < kPadded; ++i) EXPECT_EQ(prepared.values[i], 0) << i;
}

INSTANTIATE_TEST_SUITE_P(Types, RowPreparationTest,
                         testing::Values(FloatType::kFloat32,
                                         FloatType::kFloat16,
                                         FloatType::kBFloat16),
                         [](const testing::TestParamInfo<FloatType>& info) {
                           return std::string(Name(info.param));
                         });

TEST(RowRoundingTest, A16RoundsSinglesOnceToTheNamedType) {
  const float value = 1 + 0x3p-9f;
  const Prepared prepared =
      PrepareBytes(SingleSignature(ComputeMode::kA16), BytesOf({value}), 1, {});
  EXPECT_EQ(prepared.values[0], RoundTo(FloatType::kBFloat16, value));
  EXPECT_NE(prepared.values[0], value);
}

TEST(RowRangeTest, LargeRowIsDividedExactly) {
  const float large = std::numeric_limits<float>::max();
  const Prepared prepared = PrepareBytes(SingleSignature(ComputeMode::kA32),
                                         BytesOf({large, -2.5f}), 2, {});
  EXPECT_EQ(prepared.values[0] * prepared.factor, double{large});
  EXPECT_EQ(prepared.values[1] * prepared.factor, -2.5);
  EXPECT_LT(prepared.values[0], 0x1p65f);
}

TEST(RowRangeTest, SmallRowIsMultipliedExactly) {
  const Prepared prepared =
      PrepareBytes(SingleSignature(ComputeMode::kA32),
                   BytesOf({0x1p-100f, 0x3p-126f}), 2, {});
  EXPECT_EQ(prepared.values[0] * prepared.factor, 0x1p-100);
  EXPECT_EQ(prepared.values[1] * prepared.factor, 0x3p-126);
  EXPECT_GT(prepared.values[1], 0x1p-70f);
}

TEST(RowRangeTest, RowOfZerosIsNotMultiplied) {
  EXPECT_EQ(
      PrepareBytes(SingleSignature(ComputeMode::kA32), BytesOf({0, 0}), 2, {})
          .factor,
      1);
}

TEST(RowRangeTest, FiniteRowsAreTold) {
  std::vector<float> row(19, std::numeric_limits<float>::max());
  EXPECT_TRUE(AllFinite(row));
  row[18] = -std::numeric_limits<float>::infinity();
  EXPECT_FALSE(AllFinite(row));
  row[18] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(AllFinite(row));
}

TEST(RowRangeTest, InfinityAloneDividesNothing) {
  const float infinity = std::numeric_limits<float>::infinity();
  const Prepared prepared = PrepareBytes(SingleSignature(ComputeMode::kA32),
                                         BytesOf({infinity, 3}), 2, {});
  EXPECT_EQ(prepared.factor, 1);
  EXPECT_EQ(prepared.values[0], infinity);
}

struct Quantized {
  std::vector<int> q;  // in column order
  float d;
  int32_t sum;
};

Quantized QuantizeOne(const std::vector<float>& block) {
  int8_t stored[kBlockElements];
  Quantized quantized;
  QuantizeRow(block.data(), 1, {stored, &quantized.d, &quantized.sum});
  // Even columns of a group of 8 come before odd ones.
  for (int k = 0; k < kBlockElements; ++k) {
    quantized.q.push_back(stored[k / 8 * 8 + k % 8 / 2 + k % 2 * 4]);
  }
  return quantized;
}

TEST(QuantizeRowTest, RoundsHalfAwayFromZero) {
  std::vector<float> block(kBlockElements, 0.0f);
  block[0] = 127;  // d = 1
  block[1] = 2.5f;
  block[2] = -2.5f;
  block[3] = 0.49999997f;
  block[9] = -3.4f;
  const Quantized quantized = QuantizeOne(block);
  EXPECT_EQ(quantized.d, 1);
  EXPECT_EQ(quantized.q[1], 3);
  EXPECT_EQ(quantized.q[2], -3);
  EXPECT_EQ(quantized.q[3], 0);
  EXPECT_EQ(quantized.q[9], -3);
  EXPECT_EQ(quantized.sum, 127 + 3 - 3 - 3);
}

TEST(QuantizeRowTest, FollowsTheDefinitionOnRandomBlocks) {
  RandomGenerator random(FreshSeed());
  std::vector<float> block(kBlockElements);
  for (float& value : block) value = 10 * RandomSigned(&random);
  float amax = 0;
  for (float value : block) amax = std::max(amax, std::fabs(value));
  const Quantized quantized = QuantizeOne(block);
  EXPECT_EQ(quantized.d, amax / 127);
  for (int k = 0; k < kBlockElements; ++k) {
    EXPECT_EQ(quantized.q[k], std::round(block[k] / (amax / 127))) << k;
  }
}

TEST(QuantizeRowTest, BlockOfZerosHasScaleZero) {
  const Quantized quantized =
      QuantizeOne(std::vector<float>(kBlockElements, 0.0f));
  EXPECT_EQ(quantized.d, 0);
  EXPECT_EQ(quantized.sum, 0);
}

TEST(QuantizeRowTest, BlockWithInfinityIsNan) {
  std::vector<float> block(kBlockElements, 1.0f);
  block[17] = -std::numeric_limits<float>::infinity();
  EXPECT_TRUE(std::isnan(QuantizeOne(block).d));
}

}  // namespace
}  // namespace qgemm::cpu
