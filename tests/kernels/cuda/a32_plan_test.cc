// SPDX-License-Identifier: Apache-2.0
//
// A block's shared memory of mode A32 holds its parts side by side, in every
// layer that is offered.

#include "kernels/cuda/plan/a32_plan.h"

#include <algorithm>
#include <cstdint>

#include "gtest/gtest.h"
#include "kernels/cuda/layout/device_traits.h"
#include "kernels/cuda/plan/tile_plan.h"

namespace qgemm::cuda {
namespace {

constexpr int kTileMs[] = {kA32OwnRow, 2, 8, 16, 32};

// Tries every makeup of a block, with few and with very many stages.
TEST(A32SmemTest, PartsLieApartWithinTheBlock) {
  constexpr int kTileBytes = 1024 + 256 + 64;  // 4 bits, fp32 scales, zeros
  for (const int block_bytes : {kMinBlockBytes, kMaxBlockBytes}) {
    for (const int tile_m : kTileMs) {
      for (const int n_tiles : {1, 2, 3, 4, 8, 9, 16}) {
        for (const int split_k : {1, 2, 8}) {
          // Chips with so little have no clusters.
          if (split_k > 1 && block_bytes == kMinBlockBytes) continue;
          for (const int stages : {1, 5, 64, 5000}) {
            const int k_warps = n_tiles <= 4 ? 4 : n_tiles <= 8 ? 2 : 1;
            const A32SmemShape shape = {tile_m,  n_tiles * kTileBytes,
                                        stages,  n_tiles,
                                        split_k, k_warps};
            const int slots = A32Slots(shape, block_bytes, kMaxA32Slots);
            if (slots <= 0) {  // not offered, or not for a block to split
              EXPECT_TRUE(block_bytes == kMinBlockBytes ||
                          tile_m == kA32OwnRow);
              continue;
            }
            // Warps take two stages of one or two rows at a time.
            const int turns = tile_m <= kA32FewRows ? 2 * k_warps : k_warps;
            ASSERT_GE(slots, std::min(stages, turns));
            ASSERT_TRUE(slots == stages || slots % turns == 0);
            const DecodeSmemLayout plan = A32SmemLayoutOf(shape, slots);
            const int sums = SumBytes(SumsShapeOf(shape));
            // Panels stand on 1024 bytes.
            EXPECT_EQ(plan.activations, 0);
            if (A32FormOf(tile_m) == A32Form::kPanels) {
              EXPECT_EQ(A32StageBytes(tile_m) % 1024, 0);
            }
            // Behind those of a row that the block splits are zeros.
            const int kept = tile_m == kA32OwnRow ? stages + 1 : slots;
            EXPECT_EQ(plan.weights, kept * A32StageBytes(tile_m));
            if (tile_m == kA32OwnRow) {
              EXPECT_EQ(A32ZerosOffset(plan), stages * A32StageBytes(tile_m));
            }
            EXPECT_GE(plan.barriers, plan.weights + slots * shape.stage_bytes);
            EXPECT_GE(plan.barriers, sums);
            EXPECT_EQ(plan.barriers % 16, 0);
            EXPECT_GE(plan.received,
                      plan.barriers + (slots + 1) * kBarrierBytes);
            EXPECT_EQ(plan.received % 16, 0);
            EXPECT_EQ(plan.total - plan.received,
                      ReceivedBytes(SumsShapeOf(shape)));
            EXPECT_LE(plan.total, block_bytes);
          }
        }
      }
    }
  }
}

WeightsShape ShapeOf(int bits, int64_t group_size, ScaleType scale_type) {
  WeightsShape shape;
  shape.n = 5000;
  shape.k = 4096;
  shape.bits = bits;
  shape.group_size = group_size == 0 ? shape.k : group_size;
  shape.scale_type = scale_type;
  shape.ternary_codes = bits == 2;
  return shape;
}

TEST(OffersA32Test, LayersOfWholeNumbers) {
  DeviceTraits hopper;
  hopper.compute_capability = 90;
  hopper.sm_count = 132;
  hopper.shared_bytes_per_block = 227 << 10;
  const auto offers = [&](const WeightsShape& shape) {
    return OffersA32(*PlanTileLayout(shape, hopper));
  };
  EXPECT_TRUE(offers(ShapeOf(2, 0, ScaleType::kFloat32)));
  for (const int64_t group : {0, 32, 64, 128}) {
    for (const ScaleType type :
         {ScaleType::kFloat16, ScaleType::kBFloat16, ScaleType::kFloat32}) {
      WeightsShape shape = ShapeOf(4, group, type);
      EXPECT_TRUE(offers(shape));
      shape.integer_codes = true;
      shape.has_zeros = true;
      EXPECT_TRUE(offers(shape));
    }
  }
  EXPECT_FALSE(offers(ShapeOf(4, 32, ScaleType::kE4m4)));
  EXPECT_FALSE(offers(ShapeOf(2, 32, ScaleType::kE4m4)));
  EXPECT_FALSE(offers(ShapeOf(3, 0, ScaleType::kFloat32)));
}

// Whatever the tile config: a layer that is offered has room for every height.
TEST(OffersA32Test, HasSlotsForEveryHeight) {
  for (const int compute_capability : {80, 89, 90}) {
    DeviceTraits device;
    device.compute_capability = compute_capability;
    device.sm_count = compute_capability == 90 ? 132 : 108;
    device.shared_bytes_per_block = compute_capability == 90   ? 227 << 10
                                    : compute_capability == 80 ? 163 << 10
                                                               : 99 << 10;
    for (const int64_t n : {1, 100, 1000, 4096, 14336, 28672}) {
      for (const int64_t k : {32, 1000, 4096, 28672}) {
        for (const int bits : {2, 4}) {
          WeightsShape shape = ShapeOf(bits, 0, ScaleType::kFloat32);
          shape.n = n;
          shape.k = k;
          shape.group_size = bits == 2 ? k : 32;
          const TileLayout layout = *PlanTileLayout(shape, device);
          if (!OffersA32(layout)) {
            EXPECT_NE(compute_capability, 90);
            continue;
          }
          for (const int tile_m : kTileMs) {
            if (tile_m == kA32OwnRow && !BlocksSplit(layout, 1)) continue;
            const A32SmemShape smem = A32ShapeOf(layout, tile_m);
            const int slots = A32Slots(smem, layout.block_bytes, kMaxA32Slots);
            ASSERT_GE(slots, 1);
            EXPECT_LE(A32SmemLayoutOf(smem, slots).total, layout.block_bytes);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace qgemm::cuda
