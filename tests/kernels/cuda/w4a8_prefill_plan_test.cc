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

// 132 SMs; measured, with the times of both kernels beside each other, at
// 8192x28672, 28672x8192, 4096x14336 and 4096x4096.
TEST(W4A8PrefillPlanTest, ChoosesTheKernelThatMeasuredFastest) {
  const TileLayout wide = Layer(28672, 8192);
  for (const int64_t m : {1, 8, 16, 32, 64}) {
    EXPECT_EQ(W4A8PrefillTileM(wide, m, Hopper()), 0) << m;
  }
  EXPECT_EQ(W4A8PrefillTileM(wide, 128, Hopper()), 128);
  EXPECT_EQ(W4A8PrefillTileM(wide, 256, Hopper()), 128);
  EXPECT_EQ(W4A8PrefillTileM(wide, 512, Hopper()), 128);
  EXPECT_EQ(W4A8PrefillTileM(wide, 512, DeviceTraits()), 0);
  const TileLayout deep = Layer(8192, 28672);
  EXPECT_EQ(W4A8PrefillTileM(deep, 128, Hopper()), 0);
  EXPECT_EQ(W4A8PrefillTileM(deep, 256, Hopper()), 128);
  EXPECT_EQ(W4A8PrefillTileM(deep, 512, Hopper()), 128);
  const TileLayout middle = Layer(14336, 4096);
  for (const int64_t m : {128, 256, 512}) {
    EXPECT_EQ(W4A8PrefillTileM(middle, m, Hopper()), 128) << m;
  }
  const TileLayout small = Layer(4096, 4096);
  EXPECT_EQ(W4A8PrefillTileM(small, 128, Hopper()), 0);
  EXPECT_EQ(W4A8PrefillTileM(small, 256, Hopper()), 64);
  EXPECT_EQ(W4A8PrefillTileM(small, 512, Hopper()), 128);
}

TEST(W4A8PrefillPlanTest, SharesTilesWhereTheLastTurnWouldLeaveBlocksIdle) {
  const TileLayout wide = Layer(28672, 8192);
  EXPECT_TRUE(SharesW4A8Tiles(wide, 128, Hopper(), 128));   // 1.7 tiles each
  EXPECT_TRUE(SharesW4A8Tiles(wide, 256, Hopper(), 128));   // 3.4
  EXPECT_FALSE(SharesW4A8Tiles(wide, 512, Hopper(), 128));  // 6.8
  // Less than a tile each; several parts of K.
  EXPECT_FALSE(SharesW4A8Tiles(Layer(16384, 8192), 128, Hopper(), 128));
  EXPECT_FALSE(SharesW4A8Tiles(Layer(14336, 4096), 256, Hopper(), 128));
  DeviceTraits larger = Hopper();
  larger.sm_count = kMaxHandingBlocks + 1;
  EXPECT_FALSE(SharesW4A8Tiles(wide, 128, larger, 128));
}

TEST(W4A8PiecesTest, GoRoundTheBlocks) {
  const W4A8Pieces pieces = {/*tiles=*/8, /*k_tiles=*/5, /*block=*/1,
                             /*blocks=*/3};
  ASSERT_EQ(pieces.Count(), 3);
  for (int index = 0; index < 3; ++index) {
    const W4A8Piece piece = pieces.At(index);
    EXPECT_EQ(piece.tile, 1 + 3 * index);
    EXPECT_EQ(piece.begin, 0);
    EXPECT_EQ(piece.end, 5);
  }
  EXPECT_EQ((W4A8Pieces{8, 5, 2, 3}).Count(), 2);
}

// Column tiles of a tile that is shared follow each other, each is
// there once; a block's first piece alone ends early, and its last alone begins
// late, in the tile that the block before began.
TEST(W4A8PiecesTest, OfSharedTilesAreHandedToTheNextBlock) {
  for (const int blocks : {1, 2, 3, 7, 132}) {
    for (const int tiles : {blocks, blocks + 1, blocks * 5 / 3, blocks * 3}) {
      for (const int k_tiles : {1, 2, 9, 64}) {
        std::vector<int> done(tiles);  // column tiles so far
        for (int block = 0; block < blocks; ++block) {
          const W4A8Pieces pieces = {tiles, k_tiles, block, blocks, true};
          const int count = pieces.Count();
          ASSERT_GE(count, 1);
          for (int index = 0; index < count; ++index) {
            const W4A8Piece piece = pieces.At(index);
            ASSERT_GE(piece.tile, 0);
            ASSERT_LT(piece.tile, tiles);
            ASSERT_LT(piece.begin, piece.end);
            EXPECT_EQ(piece.begin, done[piece.tile]);
            done[piece.tile] = piece.end;
            if (piece.begin > 0) {
              EXPECT_EQ(index, count - 1);
              const W4A8Piece before =
                  W4A8Pieces{tiles, k_tiles, block - 1, blocks, true}.At(0);
              EXPECT_EQ(before.tile, piece.tile);
              EXPECT_EQ(before.end, piece.begin);
            }
            if (piece.end < k_tiles) {
              EXPECT_EQ(index, 0);
            }
          }
        }
        EXPECT_EQ(done, std::vector<int>(tiles, k_tiles))
            << blocks << " " << tiles;
      }
    }
  }
}

}  // namespace
}  // namespace qgemm::cuda
