// SPDX-License-Identifier: Apache-2.0
//
// The width of the wide family's tiles, over the shapes of real layers: what
// holds whatever the costs are measured to be.

#include "kernels/cuda/tuning/wide_choice.h"

#include <cstdint>
#include <iterator>
#include <limits>
#include <ostream>

#include "gtest/gtest.h"

namespace qgemm::cuda {
namespace {

struct LayerShape {
  int64_t n;
  int64_t k;
};

void PrintTo(const LayerShape& shape, std::ostream* out) {
  *out << shape.n << "x" << shape.k;
}

constexpr LayerShape kLayers[] = {
    {28672, 8192}, {8192, 28672}, {10240, 8192}, {8192, 8192},  {14336, 4096},
    {4096, 14336}, {11008, 4096}, {4096, 11008}, {4096, 4096},  {13824, 5120},
    {18944, 3584}, {3584, 18944}, {10240, 2048}, {1536, 2048},  {4096, 1024},
    {8192, 14336}, {1, 1},        {17, 136},     {128256, 8192}};
constexpr int64_t kRows[] = {1,   64,  65,  127,  128,  129, 256,
                             257, 300, 512, 1024, 2048, 4096};

WideWork WorkOf(const LayerShape& layer, int64_t m) {
  WideWork work;
  work.m = m;
  work.n = layer.n;
  work.stages = static_cast<int>((layer.k + 127) / 128);
  return work;
}

class WideChoiceTest : public ::testing::TestWithParam<LayerShape> {};

TEST_P(WideChoiceTest, TakesTheLeastTimeOfWhatIsOffered) {
  for (const int64_t m : kRows) {
    for (const bool offers_many : {false, true}) {
      WideWork work = WorkOf(GetParam(), m);
      work.offers_many_tokens = offers_many;
      double least = std::numeric_limits<double>::infinity();
      int tokens = 0;
      for (const WideCost& cost : kWideCosts) {
        if (cost.tokens > 128 && !offers_many) continue;
        const double time = WideMicroseconds(work, cost);
        if (time < least) tokens = cost.tokens;
        if (time < least) least = time;
      }
      EXPECT_EQ(WideTokens(work), tokens) << "m = " << m;
      EXPECT_EQ(WideMicroseconds(work), least) << "m = " << m;
    }
  }
}

TEST_P(WideChoiceTest, MoreRowsAreNotFaster) {
  double before = 0;
  for (const int64_t m : kRows) {
    const double time = WideMicroseconds(WorkOf(GetParam(), m));
    EXPECT_GE(time, before) << "m = " << m;
    before = time;
  }
}

TEST_P(WideChoiceTest, GoesByTheDevice) {
  for (const int64_t m : kRows) {
    WideWork half = WorkOf(GetParam(), m);
    half.multiprocessors = 66;
    EXPECT_GE(WideMicroseconds(half), WideMicroseconds(WorkOf(GetParam(), m)))
        << "m = " << m;
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, WideChoiceTest, ::testing::ValuesIn(kLayers));

TEST(WideCostsTest, AreThoseOfEveryWidth) {
  ASSERT_EQ(std::size(kWideCosts), std::size(kWideTokenCounts));
  for (size_t i = 0; i < std::size(kWideCosts); ++i) {
    EXPECT_EQ(kWideCosts[i].tokens, kWideTokenCounts[i]);
  }
}

// A wider tile takes longer, a token of it less.
TEST(WideCostsTest, RiseByTheTileAndFallByTheToken) {
  for (size_t i = 1; i < std::size(kWideCosts); ++i) {
    const WideCost& narrow = kWideCosts[i - 1];
    const WideCost& wide = kWideCosts[i];
    EXPECT_GT(wide.stage, narrow.stage);
    EXPECT_LT(wide.full_stage / wide.tokens, narrow.full_stage / narrow.tokens);
    EXPECT_GE(wide.full_stage, wide.stage);
  }
}

TEST(WideTokensTest, AreFewWhereNarrowTilesFillNoWave) {
  EXPECT_EQ(WideTokens(WorkOf({1536, 2048}, 256)), 64);
}

TEST(WideTokensTest, AreManyWhereThereAreManyWaves) {
  WideWork work = WorkOf({28672, 8192}, 4096);
  EXPECT_EQ(WideTokens(work), 128);
  work.offers_many_tokens = true;
  EXPECT_EQ(WideTokens(work), 256);
}

// One tile more than multiprocessors is a wave more.
TEST(WideMicrosecondsTest, CountsWholeWaves) {
  const WideCost& cost = kWideCosts[1];
  const WideWork one = WorkOf({kWideRows * 132, 4096}, cost.tokens);
  const WideWork two = WorkOf({kWideRows * 132 + 1, 4096}, cost.tokens);
  const WideWork also_two = WorkOf({kWideRows * 264, 4096}, cost.tokens);
  EXPECT_LT(WideMicroseconds(one, cost), WideMicroseconds(two, cost));
  EXPECT_EQ(WideMicroseconds(two, cost), WideMicroseconds(also_two, cost));
}

}  // namespace
}  // namespace qgemm::cuda
