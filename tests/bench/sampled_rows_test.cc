// SPDX-License-Identifier: Apache-2.0
//
// Sampled rows are the layer's own, and synthetic layers are what they claim.

#include "bench/sampled_rows.h"

#include <algorithm>
#include <string>

#include "bench/bench_case.h"
#include "bench/synthetic_layer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

using testing::ElementsAre;

TEST(SpreadIndicesTest, HasTheFirstAndTheLast) {
  EXPECT_THAT(SpreadIndices(100, 3), ElementsAre(0, 49, 99));
  EXPECT_THAT(SpreadIndices(28672, 2), ElementsAre(0, 28671));
}

TEST(SpreadIndicesTest, HasNoneTwice) {
  EXPECT_THAT(SpreadIndices(3, 8), ElementsAre(0, 1, 2));
  EXPECT_THAT(SpreadIndices(1, 3), ElementsAre(0));
}

class SampledLayerTest : public testing::TestWithParam<std::string> {
 protected:
  static BenchCase Case() {
    BenchCase one;
    one.format = GetParam();
    one.shape = {256, 83};  // the last panel is short
    one.m = 1;
    return one;
  }
};

TEST_P(SampledLayerTest, KeepsTheRowsOfTheLayer) {
  CanonicalWeights whole;
  SampledRows sampled(7);
  ASSERT_TRUE(WriteSyntheticLayer(Case(), 5, &whole).ok());
  ASSERT_TRUE(WriteSyntheticLayer(Case(), 5, &sampled).ok());
  ASSERT_EQ(sampled.rows().size(), 7u);
  EXPECT_EQ(sampled.rows().back(), 82);
  for (size_t i = 0; i < sampled.rows().size(); ++i) {
    for (int64_t column = 0; column < 256; ++column) {
      ASSERT_EQ(sampled.weights().Weight(i, column),
                whole.Weight(sampled.rows()[i], column))
          << "row " << sampled.rows()[i] << " column " << column;
    }
  }
}

TEST_P(SampledLayerTest, RowsOfALayerDiffer) {
  CanonicalWeights whole;
  ASSERT_TRUE(WriteSyntheticLayer(Case(), 5, &whole).ok());
  for (int64_t row = 1; row < 83; ++row) {
    int64_t different = 0;
    for (int64_t column = 0; column < 256; ++column) {
      different += whole.Weight(row, column) != whole.Weight(row - 1, column);
    }
    // Two rows of three codes agree by chance in a third of the columns.
    EXPECT_GT(different, 256 / 4) << "row " << row;
  }
}

TEST_P(SampledLayerTest, SeedsDiffer) {
  SampledRows a(4);
  SampledRows b(4);
  ASSERT_TRUE(WriteSyntheticLayer(Case(), 1, &a).ok());
  ASSERT_TRUE(WriteSyntheticLayer(Case(), 2, &b).ok());
  EXPECT_TRUE(a.weights().codes() != b.weights().codes() ||
              a.weights().dense() != b.weights().dense());
}

INSTANTIATE_TEST_SUITE_P(Formats, SampledLayerTest,
                         testing::Values("kbit2", "kbit5", "q4_0", "int4",
                                         "ternary", "dense"));

TEST(SampledRowsTest, RefusesABias) {
  WeightsHeader header;
  header.kind = WeightsHeader::Kind::kDense;
  header.n = 2;
  header.k = 32;
  header.bias = {1, 2};
  SampledRows sampled(1);
  EXPECT_EQ(sampled.Begin(header).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace qgemm
