// SPDX-License-Identifier: Apache-2.0
//
// The width of the prefill kernel's tiles, over the shapes of real layers: what
// holds whatever the costs are measured to be.

#include "kernels/cuda/plan/prefill_plan.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <ostream>

#include "gtest/gtest.h"
#include "kernels/cuda/plan/scale_folding.h"

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

PrefillWork WorkOf(const LayerShape& layer, int64_t m) {
  PrefillWork work;
  work.m = m;
  work.n = layer.n;
  work.stages = static_cast<int>((layer.k + 127) / 128);
  return work;
}

double TimeOf(const PrefillWork& work) {
  return BestPrefillEstimate(work).microseconds;
}
int TileMOf(const PrefillWork& work) {
  return BestPrefillEstimate(work).tiling.tile_m;
}

class PrefillPlanTest : public ::testing::TestWithParam<LayerShape> {};

TEST_P(PrefillPlanTest, TakesTheLeastTimeOfWhatIsOffered) {
  for (const int64_t m : kRows) {
    for (const bool offers_tall : {false, true}) {
      PrefillWork work = WorkOf(GetParam(), m);
      work.offers_tall_tiles = offers_tall;
      double least = std::numeric_limits<double>::infinity();
      for (const PrefillCost& cost : kPrefillCosts) {
        for (const bool pairs : {false, true}) {
          for (const bool splits : {false, true}) {
            const PrefillTiling tiling = {cost.tile_m, splits, pairs};
            if (!OffersTiling(work, tiling)) continue;
            least = std::min(least, PrefillMicroseconds(work, cost, tiling));
          }
        }
      }
      const PrefillEstimate best = BestPrefillEstimate(work);
      EXPECT_TRUE(offers_tall || best.tiling.tile_m <= 128) << "m = " << m;
      EXPECT_TRUE(OffersTiling(work, best.tiling)) << "m = " << m;
      EXPECT_EQ(best.microseconds, least) << "m = " << m;
    }
  }
}

// But for a little, where split tiles come out with fewer parts.
TEST_P(PrefillPlanTest, MoreRowsAreNotFaster) {
  double before = 0;
  for (const int64_t m : kRows) {
    const double time = TimeOf(WorkOf(GetParam(), m));
    EXPECT_GE(time, 0.95 * before) << "m = " << m;
    before = time;
  }
}

TEST_P(PrefillPlanTest, GoesByTheDevice) {
  for (const int64_t m : kRows) {
    PrefillWork half = WorkOf(GetParam(), m);
    half.sm_count = 66;
    EXPECT_GE(TimeOf(half), TimeOf(WorkOf(GetParam(), m))) << "m = " << m;
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, PrefillPlanTest, ::testing::ValuesIn(kLayers));

TEST(PrefillCostsTest, AreThoseOfEveryWidth) {
  ASSERT_EQ(std::size(kPrefillCosts), std::size(kPrefillTileMs));
  for (size_t i = 0; i < std::size(kPrefillCosts); ++i) {
    EXPECT_EQ(kPrefillCosts[i].tile_m, kPrefillTileMs[i]);
  }
}

// A wider tile takes longer, a row of A of it less.
TEST(PrefillCostsTest, RiseByTheTileAndFallByTheToken) {
  for (size_t i = 1; i < std::size(kPrefillCosts); ++i) {
    const PrefillCost& narrow = kPrefillCosts[i - 1];
    const PrefillCost& wide = kPrefillCosts[i];
    EXPECT_GT(wide.stage, narrow.stage);
    EXPECT_LT(wide.full_stage / wide.tile_m, narrow.full_stage / narrow.tile_m);
    EXPECT_GE(wide.full_stage, wide.stage);
  }
}

TEST(PrefillTileMTest, AreFewWhereNarrowTilesFillNoWave) {
  EXPECT_EQ(TileMOf(WorkOf({1536, 2048}, 256)), 64);
}

TEST(PrefillTileMTest, AreManyWhereThereAreManyWaves) {
  PrefillWork work = WorkOf({28672, 8192}, 4096);
  EXPECT_EQ(TileMOf(work), 128);
  work.offers_tall_tiles = true;
  EXPECT_EQ(TileMOf(work), 256);
}

// One tile more than SMs is a wave more.
TEST(WholeTilesTest, TakeWholeWaves) {
  const PrefillCost& cost = kPrefillCosts[1];
  const PrefillWork one = WorkOf({kPrefillTileN * 132, 4096}, cost.tile_m);
  const PrefillWork two = WorkOf({kPrefillTileN * 132 + 1, 4096}, cost.tile_m);
  const PrefillWork also_two = WorkOf({kPrefillTileN * 264, 4096}, cost.tile_m);
  EXPECT_LT(WholeTilesMicroseconds(one, cost),
            WholeTilesMicroseconds(two, cost));
  EXPECT_EQ(WholeTilesMicroseconds(two, cost),
            WholeTilesMicroseconds(also_two, cost));
}

// Half of a wave more is half of the time.
TEST(SplitTilesTest, FillTheLastWave) {
  const PrefillCost& cost = kPrefillCosts[1];
  const PrefillWork work =
      WorkOf({kPrefillTileN * 132 * 3 / 2, 28672}, cost.tile_m);
  EXPECT_LT(SplitTilesMicroseconds(work, cost),
            0.8 * WholeTilesMicroseconds(work, cost));
  const PrefillTiling best = BestPrefillEstimate(work).tiling;
  EXPECT_TRUE(best.splits || best.pairs);
}

// Pairs add up what two blocks would hand over.
TEST(PairsTest, TakeTilesThatHalfOfTheSmsWouldHave) {
  const PrefillEstimate best = BestPrefillEstimate(WorkOf({8192, 8192}, 128));
  EXPECT_TRUE(best.tiling.pairs);
  EXPECT_FALSE(best.tiling.splits);
}

TEST(PairsTest, TakeTheLayersOddStageAsTwo) {
  const PrefillWork work = WorkOf({4096, 11 * 128}, 128);
  const TileSchedule schedule = ScheduleOf(work, {128, false, true});
  EXPECT_EQ(schedule.stages, 6);
  EXPECT_EQ(schedule.blocks, 32);
}

TEST(SplitTilesTest, HaveNoUseWhereAllSmsHaveAsMany) {
  EXPECT_FALSE(OffersSplit(WorkOf({kPrefillTileN * 132, 4096}, 128), 128));
  EXPECT_TRUE(OffersSplit(WorkOf({kPrefillTileN * 131, 4096}, 128), 128));
}

TEST(ScaleFoldingTest, LargestWeightsFillFloat16AndDoNotOverflow) {
  constexpr double kLargestHalf = 65504;
  for (const float scale : {65504.0f, 1.0f, 0x1.ffcp-10f, 0x1p-14f}) {
    const ScaleFolding of_entries = FoldingOf(scale, false);
    const double entry = std::ldexp(1.0, of_entries.of_table);
    const double weight = std::ldexp(scale, of_entries.of_scales) * entry;
    EXPECT_LE(weight, kLargestHalf) << scale;
    EXPECT_GE(weight, 0x1p12) << scale;
    const ScaleFolding of_numbers = FoldingOf(scale, true);
    const double number = std::ldexp(scale, of_numbers.of_scales);
    EXPECT_EQ(of_numbers.of_table, 0);
    EXPECT_LE(16 * number, kLargestHalf) << scale;
  }
}

// However small other scales of the layer are.
TEST(ScaleFoldingTest, ProductsAreMultiplesOfTheLeastFloat16) {
  constexpr double kLeastHalf = 0x1p-24;
  for (const float largest : {0x1p-24f, 0x1p-14f, 1.0f, 2047.0f}) {
    const ScaleFolding of_entries = FoldingOf(largest, false);
    EXPECT_GE(of_entries.of_scales, 0) << largest;
    EXPECT_GE(
        std::ldexp(kLeastHalf / 8, of_entries.of_scales + of_entries.of_table),
        kLeastHalf)
        << largest;
    EXPECT_GE(FoldingOf(largest, true).of_scales, 0) << largest;
  }
}

TEST(ScaleFoldingTest, ExponentsAreThoseOfNormalFloat16) {
  for (const float scale : {0.0f, 0x1p-24f, 0x1p-14f, 1.0f, 65504.0f}) {
    for (const bool numbers : {false, true}) {
      const ScaleFolding folding = FoldingOf(scale, numbers);
      EXPECT_GE(folding.of_scales, -14) << scale;
      EXPECT_LE(folding.of_scales, 15) << scale;
    }
  }
}

}  // namespace
}  // namespace qgemm::cuda
