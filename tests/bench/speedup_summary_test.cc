// SPDX-License-Identifier: Apache-2.0
//
// Means and minima count what they should.

#include "bench/speedup_summary.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

MeasuredCase Case(const std::string& format, int64_t m, double speedup) {
  MeasuredCase measured;
  measured.bench_case.format = format;
  measured.bench_case.shape = {4096, 1024};
  measured.bench_case.m = m;
  measured.result.median = absl::Microseconds(10);
  measured.result.cublas = absl::Microseconds(10) * speedup;
  return measured;
}

TEST(SpeedupSummaryTest, TakesTheGeometricMeanAndTheMinimum) {
  const auto summaries =
      SummarizeSpeedups({Case("kbit4", 1, 8), Case("kbit4", 16, 2)});
  ASSERT_EQ(summaries.size(), 1u);
  EXPECT_EQ(summaries[0].cases, 2);
  EXPECT_NEAR(summaries[0].geometric_mean, 4, 1e-9);
  EXPECT_NEAR(summaries[0].minimum, 2, 1e-9);
  EXPECT_EQ(summaries[0].slowest.m, 16);
}

TEST(SpeedupSummaryTest, ManyRowsDoNotCount) {
  const auto summaries =
      SummarizeSpeedups({Case("kbit4", 64, 3), Case("kbit4", 65, 1)});
  ASSERT_EQ(summaries.size(), 1u);
  EXPECT_EQ(summaries[0].cases, 1);
  EXPECT_NEAR(summaries[0].minimum, 3, 1e-9);
}

TEST(SpeedupSummaryTest, CasesWithoutCublasDoNotCount) {
  MeasuredCase without = Case("kbit4", 1, 1);
  without.result.cublas.reset();
  EXPECT_TRUE(SummarizeSpeedups({without}).empty());
}

TEST(SpeedupSummaryTest, FormatsAndTypesAreApart) {
  MeasuredCase bfloat = Case("kbit4", 1, 5);
  bfloat.bench_case.dtype = FloatType::kBFloat16;
  const auto summaries = SummarizeSpeedups(
      {Case("kbit4", 1, 2), bfloat, Case("int4", 1, 3), Case("kbit4", 2, 2)});
  ASSERT_EQ(summaries.size(), 3u);
  EXPECT_EQ(summaries[0].cases, 2);
  EXPECT_NEAR(summaries[1].geometric_mean, 5, 1e-9);
  EXPECT_EQ(summaries[2].format, "int4");
}

TEST(SpeedupSummaryTest, TextNamesWhereTheMinimumIs) {
  const std::string text =
      FormatSpeedups(SummarizeSpeedups({Case("kbit4", 16, 2)}));
  EXPECT_THAT(text, testing::HasSubstr("4096x1024 M = 16"));
  EXPECT_EQ(FormatSpeedups({}), "");
}

}  // namespace
}  // namespace qgemm
