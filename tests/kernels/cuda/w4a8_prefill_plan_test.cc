// SPDX-License-Identifier: Apache-2.0
//
// The kernel of mode A8 for many rows adds in the order of the kernel for few,
// fits into shared memory, and is chosen where it is expected to be faster.

#include "kernels/cuda/plan/w4a8_prefill_plan.h"

#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/plan/tile_plan.h"

namespace qgemm::cuda {
namespace {

DeviceTraits Hopper() {
  DeviceTraits device;
  device.has_wgmma = true;
  return device;
}

// Q4_0 as a device has it.
TileLayout Layer(int64_t n, int64_t k, const DeviceTraits& device = Hopper()) {
  TileLayout layout;
  layout.n = n;
  layout.k = k;
  layout.bits = 4;
  layout.codes = 4;
  layout.scale_kind = ScaleKind::kFloat16;
  layout.groups = 4;
  layout.tile_config = ChooseTileConfig({n, k}, device);
  layout.k_tiles = CeilDiv(k, int64_t{kTileColumns});
  layout.block_bytes = kMaxBlockBytes;
  layout.code_bytes = kTileRows * kTileColumns / 2;
  layout.scale_bytes = kTileRows * kQ8TileBlocks * 2;
  return layout;
}

TEST(W4A8KOrderTest, PartsAreThoseOfWarpsAndRanks) {
  for (const int k_tiles : {1, 2, 3, 7, 16, 64, 100}) {
    for (const int split_k : {1, 2, 4, 8}) {
      for (int k_warps = 1; k_warps <= 4; ++k_warps) {
        const W4A8KOrder order = {k_tiles, split_k, k_warps};
        std::vector<int> taken(k_tiles);
        for (int rank = 0; rank < split_k; ++rank) {
          const int end = (rank + 1) * k_tiles / split_k;
          for (int turn = 0; turn < k_warps; ++turn) {
            const int stages = order.Stages(rank, turn);
            int tile = order.First(rank, turn);
            EXPECT_GE(tile, rank * k_tiles / split_k);
            for (int stage = 0; stage < stages; ++stage) {
              ASSERT_LT(tile, end);
              ++taken[tile];
              tile += k_warps;
            }
            EXPECT_GE(tile, end) << "stages are left";
          }
        }
        EXPECT_EQ(taken, std::vector<int>(k_tiles, 1));
      }
    }
  }
}

TEST(W4A8KOrderTest, KeepsSumsApartThatWait) {
  EXPECT_EQ((W4A8KOrder{8, 1, 1}).kept(), 0);
  EXPECT_EQ((W4A8KOrder{8, 2, 1}).kept(), 1);
  EXPECT_EQ((W4A8KOrder{8, 2, 1}).KeptOfRanks(), 0);
  EXPECT_EQ((W4A8KOrder{8, 1, 2}).kept(), 1);
  EXPECT_EQ((W4A8KOrder{8, 1, 3}).kept(), 1);
  EXPECT_EQ((W4A8KOrder{8, 1, 4}).kept(), 2);
  EXPECT_EQ((W4A8KOrder{8, 8, 4}).kept(), 3);
  EXPECT_EQ((W4A8KOrder{8, 8, 4}).KeptOfRanks(), 2);
}

TEST(W4A8PrefillSmemTest, PartsLieApartWithinTheBlock) {
  for (const int tile_m : kW4A8PrefillTileMs) {
    for (int kept = 0; kept <= 3; ++kept) {
      const W4A8PrefillSmemLayout plan = W4A8PrefillSmemLayoutOf(tile_m, kept);
      const PrefillSmemLayout& rings = plan.rings;
      if (tile_m == 128 && kept == 3) {
        EXPECT_EQ(rings.panels, 0) << "there is no room";
        continue;
      }
      ASSERT_GE(rings.panels, kMinPrefillPanels);
      ASSERT_LE(rings.panels, kMaxPrefillPanels);
      ASSERT_GE(rings.stages, 2);
      ASSERT_LE(rings.stages, kMaxPrefillStages);
      EXPECT_EQ(rings.panels_offset, 0);  // 1024-byte aligned
      EXPECT_EQ(PrefillPanelBytes(tile_m) % 1024, 0);
      EXPECT_GE(plan.scales_offset, rings.panels * PrefillPanelBytes(tile_m));
      EXPECT_GE(
          rings.stages_offset,
          plan.scales_offset + rings.panels * tile_m * kQ8PanelScaleBytes);
      EXPECT_GE(plan.kept_offset,
                rings.stages_offset + rings.stages * kW4A8PrefillStageBytes);
      EXPECT_GE(rings.staged_offset,
                plan.kept_offset + kept * W4A8KeptBytes(tile_m));
      EXPECT_GE(rings.barriers_offset,
                rings.staged_offset + kPrefillGroups *
                                          StagedRows(kTernaryCodes) *
                                          StagedRowStride(kTernaryCodes));
      EXPECT_GE(rings.total, rings.barriers_offset +
                                 (rings.panels + rings.stages) * kBarrierBytes);
      EXPECT_LE(rings.total, kMaxBlockBytes);
      for (const int offset :
           {plan.scales_offset, rings.stages_offset, plan.kept_offset,
            rings.staged_offset, rings.barriers_offset}) {
        EXPECT_EQ(offset % 16, 0);
      }
    }
  }
}

TEST(W4A8PrefillPlanTest, StagesAreThoseOfTheLayersTiles) {
  EXPECT_EQ(kW4A8PrefillStageBytes,
            Layer(4096, 4096).tile_bytes() * kPrefillNTiles);
}

TEST(W4A8PrefillPlanTest, OffersScalesOfBlocksOnChipsWithWgmma) {
  EXPECT_TRUE(OffersW4A8Prefill(Layer(28672, 8192), Hopper(), 128));
  EXPECT_TRUE(OffersW4A8Prefill(Layer(64, 64), Hopper(), 64));
  EXPECT_FALSE(OffersW4A8Prefill(Layer(28672, 8192), DeviceTraits(), 128));
  TileLayout row = Layer(4096, 4096);
  row.scale_kind = ScaleKind::kRow;
  EXPECT_FALSE(OffersW4A8Prefill(row, Hopper(), 64));
  // More than one chain.
  const int64_t chain = int64_t{kW4A8ChainStages} * kTileColumns;
  TileLayout one = Layer(28672, chain);
  one.tile_config = {16, 1, 1, 112};
  EXPECT_TRUE(OffersW4A8Prefill(one, Hopper(), 128));
  TileLayout two = Layer(28672, chain + 32);
  two.tile_config = {16, 1, 1, 112};
  EXPECT_FALSE(OffersW4A8Prefill(two, Hopper(), 128));
}

TEST(W4A8PrefillPlanTest, FewRowsAndSmallLayersStayWithTheOtherKernel) {
  const TileLayout large = Layer(28672, 8192);
  for (const int64_t m : {1, 8, 16, 32, 64}) {
    EXPECT_EQ(W4A8PrefillTileM(large, m, Hopper()), 0) << m;
  }
  // 224 tiles a 128 rows of A on 132 SMs; of 256 rows smaller ones fill their
  // last wave better.
  EXPECT_EQ(W4A8PrefillTileM(large, 128, Hopper()), 128);
  EXPECT_EQ(W4A8PrefillTileM(large, 256, Hopper()), 64);
  EXPECT_EQ(W4A8PrefillTileM(large, 512, Hopper()), 128);
  EXPECT_EQ(W4A8PrefillTileM(large, 512, DeviceTraits()), 0);
  EXPECT_EQ(W4A8PrefillTileM(Layer(2048, 1536), 64, Hopper()), 0);
}

}  // namespace
}  // namespace qgemm::cuda
