// SPDX-License-Identifier: Apache-2.0
//
// The width of the prefill kernel's tiles, over the shapes of real layers: what
// holds whatever the costs are measured to be.

#include "kernels/cuda/plan/prefill_plan.h"

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

PrefillWork WorkOf(const LayerShape& layer, int64_t m) {
  PrefillWork work;
  work.m = m;
  work.n = layer.n;
  work.stages = static_cast<int>((layer.k + 127) / 128);
  return work;
}

class PrefillPlanTest : public ::testing::TestWithParam<LayerShape> {};

TEST_P(PrefillPlanTest, TakesTheLeastTimeOfWhatIsOffered) {
  for (const int64_t m : kRows) {
    for (const bool offers_tall : {false, true}) {
      PrefillWork work = WorkOf(GetParam(), m);
      work.offers_tall_tiles = offers_tall;
      double least = std::numeric_limits<double>::infinity();
      int tile_m = 0;
      for (const PrefillCost& cost : kPrefillCosts) {
        if (cost.tile_m > 128 && !offers_tall) continue;
        const double time = PrefillMicroseconds(work, cost);
        if (time < least) tile_m = cost.tile_m;
        if (time < least) least = time;
      }
      EXPECT_EQ(PrefillTileM(work), tile_m) << "m = " << m;
      EXPECT_EQ(PrefillMicroseconds(work), least) << "m = " << m;
    }
  }
}

TEST_P(PrefillPlanTest, MoreRowsAreNotFaster) {
  double before = 0;
  for (const int64_t m : kRows) {
    const double time = PrefillMicroseconds(WorkOf(GetParam(), m));
    EXPECT_GE(time, before) << "m = " << m;
    before = time;
  }
}

TEST_P(PrefillPlanTest, GoesByTheDevice) {
  for (const int64_t m : kRows) {
    PrefillWork half = WorkOf(GetParam(), m);
    half.sm_count = 66;
    EXPECT_GE(PrefillMicroseconds(half),
              PrefillMicroseconds(WorkOf(GetParam(), m)))
        << "m = " << m;
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
  EXPECT_EQ(PrefillTileM(WorkOf({1536, 2048}, 256)), 64);
}

TEST(PrefillTileMTest, AreManyWhereThereAreManyWaves) {
  PrefillWork work = WorkOf({28672, 8192}, 4096);
  EXPECT_EQ(PrefillTileM(work), 128);
  work.offers_tall_tiles = true;
  EXPECT_EQ(PrefillTileM(work), 256);
}

// One tile more than SMs is a wave more.
TEST(PrefillMicrosecondsTest, CountsWholeWaves) {
  const PrefillCost& cost = kPrefillCosts[1];
  const PrefillWork one = WorkOf({kPrefillTileN * 132, 4096}, cost.tile_m);
  const PrefillWork two = WorkOf({kPrefillTileN * 132 + 1, 4096}, cost.tile_m);
  const PrefillWork also_two = WorkOf({kPrefillTileN * 264, 4096}, cost.tile_m);
  EXPECT_LT(PrefillMicroseconds(one, cost), PrefillMicroseconds(two, cost));
  EXPECT_EQ(PrefillMicroseconds(two, cost),
            PrefillMicroseconds(also_two, cost));
}

}  // namespace
}  // namespace qgemm::cuda
