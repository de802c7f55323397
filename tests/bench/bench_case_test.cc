// SPDX-License-Identifier: Apache-2.0
//
// Cases come out as their flags say, and wrong flags are named.

#include "bench/bench_case.h"

#include "gtest/gtest.h"

namespace qgemm {
namespace {

TEST(BenchCaseTest, CrossesShapesFormatsAndRows) {
  const auto cases =
      ExpandSweep({"64x128,32x256", "1,7", "kbit3,dense", "bf16"});
  ASSERT_TRUE(cases.ok()) << cases.status();
  ASSERT_EQ(cases->size(), 8u);
  EXPECT_EQ(cases->front().shape.k, 64);
  EXPECT_EQ(cases->front().shape.n, 128);
  EXPECT_EQ(cases->back().m, 7);
  EXPECT_EQ(cases->back().dtype, FloatType::kBFloat16);
}

TEST(BenchCaseTest, Q4IsMeasuredInBothModes) {
  const auto cases = ExpandSweep({"64x128", "1", "q4_0", "fp16"});
  ASSERT_TRUE(cases.ok()) << cases.status();
  ASSERT_EQ(cases->size(), 2u);
  EXPECT_EQ((*cases)[0].mode, ComputeMode::kA16);
  EXPECT_EQ((*cases)[1].mode, ComputeMode::kA8);
}

TEST(BenchCaseTest, SinglesAreMeasuredAccuratelyWhereCodesAreIntegers) {
  const auto cases = ExpandSweep({"64x128", "1", "ternary,kbit4", "fp32"});
  ASSERT_TRUE(cases.ok()) << cases.status();
  ASSERT_EQ(cases->size(), 2u);
  EXPECT_EQ((*cases)[0].mode, ComputeMode::kA32);
  EXPECT_EQ((*cases)[1].mode, ComputeMode::kA16);
}

TEST(BenchCaseTest, DenseLayersOfTwoTypesDiffer) {
  BenchCase half;
  half.format = "dense";
  half.shape = {64, 64};
  BenchCase bfloat = half;
  bfloat.dtype = FloatType::kBFloat16;
  EXPECT_FALSE(SameLayer(half, bfloat));
  half.format = bfloat.format = "kbit4";
  EXPECT_TRUE(SameLayer(half, bfloat));
}

class BadSweepTest : public testing::TestWithParam<SweepText> {};

TEST_P(BadSweepTest, IsInvalid) {
  EXPECT_EQ(ExpandSweep(GetParam()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(
    Texts, BadSweepTest,
    testing::Values(SweepText{"4096", "1", "kbit4", "fp16"},
                    SweepText{"33x64", "1", "kbit4", "fp16"},
                    SweepText{"64x9999999", "1", "kbit4", "fp16"},
                    SweepText{"64x64", "0", "kbit4", "fp16"},
                    SweepText{"64x64", "1,", "kbit4", "fp16"},
                    SweepText{"64x64", "1", "kbit6", "fp16"},
                    SweepText{"64x64", "1", "kbit4", "fp64"}));

}  // namespace
}  // namespace qgemm
