// SPDX-License-Identifier: Apache-2.0
//
// Activations of mode A32: parts add up to a float; each has a place, in the
// order of the weights that it multiplies; a block's shared memory holds them.

#include "kernels/cuda/layout/a32_layout.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <set>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/layout/tile_address.h"
#include "kernels/cuda/plan/a32_plan.h"
#include "kernels/cuda/plan/tile_plan.h"
#include "tests/support/seeds.h"

namespace qgemm::cuda {
namespace {

constexpr int kTileMs[] = {2, 8, 16, 32};

float PartOf(const A32Float& split, int part) {
  return A32FloatOf(static_cast<uint32_t>(split.parts[part]) << 16);
}

// The parts add up to a finite x, up to bits that bf16 does not have.
void ExpectSum(uint32_t bits) {
  const float x = A32FloatOf(bits);
  const A32Float split = SplitA32(bits);
  double sum = 0;
  for (int part = 0; part < kA32Parts; ++part) {
    const float value = PartOf(split, part);
    EXPECT_TRUE(value == 0 || std::signbit(value) == std::signbit(x));
    // Each part is below a step of the one before.
    EXPECT_TRUE(std::fabs(value) <= std::ldexp(std::fabs(x), -7 * part))
        << std::hex << bits;
    sum += value;
  }
  const double lost = std::fabs(x - sum);
  EXPECT_LT(lost, 0x1p-133) << std::hex << bits;
  if (std::fabs(x) >= 0x1p-110f) {
    EXPECT_EQ(lost, 0) << std::hex << bits;
  }
}

TEST(SplitA32Test, PartsAddUp) {
  constexpr uint32_t kLower[] = {
      0x0000, 0x0001, 0x007f, 0x0080, 0x00ff, 0x0100, 0x0101, 0x01ff, 0x7f80,
      0x7fff, 0x8000, 0x8001, 0x80ff, 0xff00, 0xff01, 0xff7f, 0xfffe, 0xffff};
  RandomGenerator random(FreshSeed());
  for (uint32_t upper = 0; upper < 0x10000; ++upper) {
    if ((upper & 0x7f80) == 0x7f80) continue;  // not finite
    for (const uint32_t lower : kLower) ExpectSum(upper << 16 | lower);
    for (int i = 0; i < 4; ++i) {
      ExpectSum(upper << 16 |
                static_cast<uint32_t>(RandomInt(0, 0xffff, &random)));
    }
    if (HasFailure()) return;
  }
}

TEST(SplitA32Test, OneOfTheFirstPartAloneIsNotFinite) {
  for (const float x : {std::numeric_limits<float>::infinity(),
                        -std::numeric_limits<float>::infinity()}) {
    const A32Float split = SplitA32(A32BitsOf(x));
    EXPECT_EQ(PartOf(split, 0), x);
    EXPECT_EQ(split.parts[1], 0);
    EXPECT_EQ(split.parts[2], 0);
  }
  // Payloads whose bits the first part has, or has not.
  for (const uint32_t bits :
       {0x7fc00000u, 0x7f800001u, 0xff80ffffu, 0x7f810000u, 0xffffffffu}) {
    const A32Float split = SplitA32(bits);
    EXPECT_TRUE(std::isnan(PartOf(split, 0))) << std::hex << bits;
    EXPECT_EQ(split.parts[1], 0);
    EXPECT_EQ(split.parts[2], 0);
  }
  EXPECT_EQ(PartOf(SplitA32(A32BitsOf(std::numeric_limits<float>::max())), 0),
            0x1.fep127f);
}

TEST(A32LayoutTest, HasAPlaceForEachPart) {
  for (const int tile_m : kTileMs) {
    std::set<int> offsets;
    for (int row = 0; row < tile_m; ++row) {
      for (int block = 0; block < kA32TileBlocks; ++block) {
        for (int t = 0; t < 4; ++t) {
          for (int part = 0; part < kA32Parts; ++part) {
            offsets.insert(A32Offset({row, block, t, part}, tile_m));
          }
        }
      }
    }
    EXPECT_EQ(offsets.size(), tile_m * kA32TileBlocks * 4u * kA32Parts);
    EXPECT_EQ(*offsets.begin() % 16, 0);
    EXPECT_LE(*offsets.rbegin() + 16, A32StageBytes(tile_m));
    for (const int offset : offsets) EXPECT_EQ(offset % 16, 0);
  }
  for (const A32Pairs pairs : {A32Pairs::kNeighbours, A32Pairs::kEights}) {
    std::set<int> columns;
    for (int i = 0; i < 32; ++i) {
      columns.insert(A32Column(i / 8, i / 2 % 4, i % 2, pairs));
    }
    EXPECT_EQ(columns.size(), 32u);
    EXPECT_EQ(*columns.begin(), 0);
    EXPECT_EQ(*columns.rbegin(), 31);
  }
}

TEST(A32LayoutTest, RowBlocksFollowEachOther) {
  EXPECT_EQ(A32TileM(1), 2);
  EXPECT_EQ(A32TileM(2), 2);
  EXPECT_EQ(A32TileM(3), 8);
  EXPECT_EQ(A32TileM(9), 16);
  EXPECT_EQ(A32TileM(17), 32);
  EXPECT_EQ(A32TileM(1000), 32);
  const A32Layout layout = A32LayoutOf(70, 300);
  EXPECT_EQ(layout.k_tiles, 3);
  EXPECT_EQ(layout.total_bytes(), 3 * 3 * 32 * kA32RowBytes);
  EXPECT_EQ(layout.StageOffset(31, 1), 32 * kA32RowBytes);
  EXPECT_EQ(layout.StageOffset(64, 2), (2 * 3 + 2) * 32 * kA32RowBytes);
  // Buffers have room for a multiple of 64 rows of the larger kind.
  EXPECT_LE(A32LayoutOf(2, 300).total_bytes(), 3 * 64 * kA32RowBytes);
}

// A row tile and a row block of activations, multiplied as the kernel does it,
// lane by lane, in integers.
class A32TileTest : public testing::TestWithParam<int> {
 protected:
  static constexpr int kLanes = 32;
  using Fragment = std::array<std::array<int, 2>, 4>;  // registers, halves

  void SetUp() override {
    for (auto& row : codes_) {
      for (int& code : row) {
        code = static_cast<int>(RandomInt(0, Codes() - 1, &random_));
      }
    }
    const int bits = BitsOf(GetParam());
    tile_.assign(kTileRows * kTileColumns * bits / 8, 0);
    for (int row = 0; row < kTileRows; ++row) {
      for (int column = 0; column < kTileColumns; ++column) {
        const CodePlace place = PlaceOfCode(row, column);
        std::array<uint32_t, kMaxWordsPerHalf> words = {};
        for (int word = 0; word < bits; ++word) {
          words[word] = Word(place.owner, word);
        }
        AddCode(GetParam(), place.pair, place.element, codes_[row][column],
                words.data());
        for (int word = 0; word < bits; ++word) {
          std::memcpy(&tile_[WordOffset(GetParam(), place.owner, word)],
                      &words[word], 4);
        }
      }
    }
  }

  int Codes() const { return GetParam() == kTernaryCodes ? 3 : 16; }

  uint32_t Word(const LaneHalf& owner, int word) const {
    uint32_t value;
    std::memcpy(&value, &tile_[WordOffset(GetParam(), owner, word)], 4);
    return value;
  }

  // The A operand of a step of a block: codes of 4 bits, numbers of ternary
  // ones (decode.cuh has the shift).
  Fragment Weights(int lane, int block, int step) const {
    Fragment a;
    const LaneHalf owner = {lane, block / 2};
    for (int r = 0; r < 4; ++r) {
      if (GetParam() == kTernaryCodes) {
        const uint32_t kept = Word(owner, block % 2) << (14 - 8 * step - 2 * r);
        for (int half = 0; half < 2; ++half) {
          a[r][half] = static_cast<int16_t>(kept >> 16 * half & 0xc000) >> 14;
        }
        continue;
      }
      const uint32_t kept =
          Word(owner, 2 * (block % 2) + step) >> A32CodeShift(r) & kA32CodeMask;
      a[r] = {static_cast<int>(kept & 0xffff), static_cast<int>(kept >> 16)};
    }
    return a;
  }

  int Number(int code) const {
    return GetParam() == kTernaryCodes ? code - 1 : code;
  }

  RandomGenerator random_{FreshSeed()};
  std::array<std::array<int, kTileColumns>, kTileRows> codes_;
  std::vector<uint8_t> tile_;
};

// d[row][column] += A * B as mma.m16n8k16 has its operands.
template <typename Fragment>
void MultiplyStep(const std::array<Fragment, 32>& a,
                  const std::array<Fragment, 32>& b,
                  std::array<std::array<int64_t, 8>, kTileRows>& d) {
  int w[kTileRows][16];
  int x[16][8];
  for (int lane = 0; lane < 32; ++lane) {
    const int g = lane / 4;
    const int t = lane % 4;
    for (int r = 0; r < 4; ++r) {
      for (int half = 0; half < 2; ++half) {
        w[g + r % 2 * 8][r / 2 * 8 + 2 * t + half] = a[lane][r][half];
        if (r < 2) x[r * 8 + 2 * t + half][g] = b[lane][r][half];
      }
    }
  }
  for (int row = 0; row < kTileRows; ++row) {
    for (int column = 0; column < 8; ++column) {
      for (int k = 0; k < 16; ++k) d[row][column] += w[row][k] * x[k][column];
    }
  }
}

TEST_P(A32TileTest, OperandsMeet) {
  const A32Pairs pairs = A32PairsOf(GetParam());
  for (const int tile_m : kTileMs) {
    // A number for each row, column and part, at its place.
    std::vector<int> x(tile_m * kTileColumns * kA32Parts);
    for (int& value : x) value = static_cast<int>(RandomInt(-99, 99, &random_));
    const auto number = [&](int row, int column, int part) {
      return x[(row * kTileColumns + column) * kA32Parts + part];
    };
    std::vector<int> stage(A32StageBytes(tile_m) / 2);
    for (int row = 0; row < tile_m; ++row) {
      for (int part = 0; part < kA32Parts; ++part) {
        for (int i = 0; i < kTileColumns; ++i) {
          const A32Place place = {row, i / 32, i / 8 % 4, part};
          const int word = i / 2 % 4;
          const int column =
              place.block * kA32Block + A32Column(place.t, word, i % 2, pairs);
          stage[A32Offset(place, tile_m) / 2 + 2 * word + i % 2] =
              number(row, column, part);
        }
      }
    }
    const bool few = tile_m <= kA32FewRows;
    const int m_tiles = few ? 1 : tile_m / kA32TileRows;
    const int mma_parts = few ? 1 : kA32Parts;
    for (int m_tile = 0; m_tile < m_tiles; ++m_tile) {
      for (int piece = 0; piece < mma_parts; ++piece) {
        std::array<std::array<int64_t, 8>, kTileRows> d = {};
        for (int block = 0; block < kA32TileBlocks; ++block) {
          const int from = m_tile * kA32TileBytes +
                           (block * mma_parts + piece) * kA32PieceBytes;
          for (int step = 0; step < 2; ++step) {
            std::array<Fragment, kLanes> a;
            std::array<Fragment, kLanes> b;
            for (int lane = 0; lane < kLanes; ++lane) {
              a[lane] = Weights(lane, block, step);
              for (int i = 0; i < 4; ++i) {
                b[lane][i / 2][i % 2] =
                    stage[(from + lane * 16) / 2 + step * 4 + i];
              }
            }
            MultiplyStep(a, b, d);
          }
        }
        for (int n = 0; n < 8; ++n) {
          const int part = few ? n % 4 : piece;
          if (part == kA32Parts) continue;
          const int row = few ? n / 4 : m_tile * kA32TileRows + n;
          for (int w_row = 0; w_row < kTileRows; ++w_row) {
            int64_t expected = 0;
            for (int column = 0; column < kTileColumns; ++column) {
              expected +=
                  Number(codes_[w_row][column]) * number(row, column, part);
            }
            ASSERT_EQ(d[w_row][n], expected)
                << "tile_m " << tile_m << ", row " << row << ", part " << part;
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Codes, A32TileTest, testing::Values(kTernaryCodes, 4),
                         [](const testing::TestParamInfo<int>& info) {
                           return info.param == 4 ? "Int4" : "Ternary";
                         });

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
            if (slots == 0) {  // not offered
              EXPECT_EQ(block_bytes, kMinBlockBytes);
              continue;
            }
            ASSERT_GE(slots, std::min(stages, k_warps));
            const DecodeSmemLayout plan = A32SmemLayoutOf(shape, slots);
            const int sums = SumBytes(SumsShapeOf(shape));
            EXPECT_EQ(plan.activations, 0);
            EXPECT_EQ(plan.weights, slots * A32StageBytes(tile_m));
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
