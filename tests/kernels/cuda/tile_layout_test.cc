// SPDX-License-Identifier: Apache-2.0
//
// The size and alignment of a layer in device memory, and what is refused.

#include "kernels/cuda/layout/tile_layout.h"

#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/plan/smem_layout.h"
#include "kernels/cuda/plan/tile_plan.h"

namespace qgemm::cuda {
namespace {

using ::testing::HasSubstr;

struct Recipe {
  std::string name;
  int bits;
  int64_t group_size;  // 0 = k
  ScaleType scale_type;
  bool has_zeros;
  bool integer_codes;
};

void PrintTo(const Recipe& recipe, std::ostream* out) { *out << recipe.name; }

std::vector<Recipe> Recipes() {
  std::vector<Recipe> recipes;
  for (const int bits : {2, 3, 4, 5}) {
    recipes.push_back({"kbit" + std::to_string(bits), bits, 32,
                       ScaleType::kE4m4, false, false});
  }
  recipes.push_back({"q4_0", 4, 32, ScaleType::kFloat16, false, true});
  recipes.push_back({"ternary", 2, 0, ScaleType::kFloat32, false, true});
  for (const int64_t group : {32, 64, 128, 0}) {
    for (const bool zeros : {false, true}) {
      recipes.push_back(
          {"int4_g" + std::to_string(group) + (zeros ? "_zeros" : ""), 4, group,
           ScaleType::kFloat16, zeros, true});
    }
  }
  recipes.push_back({"int4_bf16", 4, 128, ScaleType::kBFloat16, true, true});
  recipes.push_back({"int4_fp32", 4, 64, ScaleType::kFloat32, false, true});
  return recipes;
}

WeightsHeader HeaderOf(const Recipe& recipe, int64_t n, int64_t k) {
  WeightsHeader header;
  header.n = n;
  header.k = k;
  header.bits = recipe.bits;
  header.codebook.resize(size_t{1} << recipe.bits);
  header.group_size = recipe.group_size == 0 ? k : recipe.group_size;
  header.scale_type = recipe.scale_type;
  header.has_zeros = recipe.has_zeros;
  header.integer_codes = recipe.integer_codes;
  return header;
}

// Bytes of the layer's codes, scales and zeros without any padding; a zero
// of an INT4 layer has four bits on the wire and eight in canonical form.
double PackedBytes(const WeightsHeader& header) {
  const double groups = static_cast<double>(header.n) * header.groups_per_row();
  return static_cast<double>(header.n) * header.k * header.bits / 8 +
         groups * SizeOf(header.scale_type) +
         (header.has_zeros ? groups / 2 : 0);
}

class TileLayoutTest : public ::testing::TestWithParam<Recipe> {
 protected:
  absl::StatusOr<TileLayout> LayoutOf(int64_t n, int64_t k) const {
    return PlanTileLayout(HeaderOf(GetParam(), n, k), DeviceTraits());
  }
};

TEST_P(TileLayoutTest, HoldsWholeTilesInLittleMoreThanThePackedSize) {
  for (const auto& [n, k] :
       std::vector<std::pair<int64_t, int64_t>>{{28672, 8192},
                                                {8192, 28672},
                                                {4096, 14336},
                                                {4096, 4096},
                                                {4096, 1024},
                                                {1536, 2048},
                                                {3584, 18944},
                                                {5120, 13824}}) {
    const absl::StatusOr<TileLayout> layout = LayoutOf(n, k);
    ASSERT_TRUE(layout.ok()) << layout.status();
    EXPECT_LE(static_cast<double>(layout->total_bytes),
              1.05 * PackedBytes(HeaderOf(GetParam(), n, k)))
        << n << " x " << k;
  }
}

TEST_P(TileLayoutTest, HasRoomForEveryElement) {
  for (const auto& [n, k] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 200}, {17, 129}, {100, 333}, {2113, 4097}}) {
    const absl::StatusOr<TileLayout> layout = LayoutOf(n, k);
    ASSERT_TRUE(layout.ok()) << layout.status();
    EXPECT_GE(layout->padded_n(), n);
    EXPECT_GE(layout->padded_k(), k);
    EXPECT_LT(layout->padded_k(), k + kTileColumns);
    EXPECT_GE(layout->total_bytes, layout->tiles_bytes());
    EXPECT_EQ(layout->code_bytes * 8,
              kTileRows * kTileColumns * int64_t{GetParam().bits});
  }
}

TEST_P(TileLayoutTest, AlignsEveryPartToSixteenBytes) {
  WeightsHeader header = HeaderOf(GetParam(), 100, 333);
  header.bias.resize(100);
  header.permutation.resize(333);
  const absl::StatusOr<TileLayout> layout =
      PlanTileLayout(header, DeviceTraits());
  ASSERT_TRUE(layout.ok()) << layout.status();
  for (const int64_t part : {layout->code_bytes, layout->scale_bytes,
                             layout->zero_bytes, layout->row_scales_offset,
                             layout->bias_offset, layout->permutation_offset,
                             layout->codebook_offset, layout->total_bytes}) {
    EXPECT_EQ(part % 16, 0) << part;
  }
}

TEST_P(TileLayoutTest, KeepsPartsApart) {
  WeightsHeader header = HeaderOf(GetParam(), 100, 333);
  header.bias.resize(100);
  header.permutation.resize(333);
  const absl::StatusOr<TileLayout> layout =
      PlanTileLayout(header, DeviceTraits());
  ASSERT_TRUE(layout.ok()) << layout.status();
  const int64_t row_scales =
      layout->scale_kind == ScaleKind::kRow ? layout->padded_n() * 4 : 0;
  EXPECT_LE(layout->tiles_bytes(), layout->row_scales_offset);
  EXPECT_LE(layout->row_scales_offset + row_scales, layout->bias_offset);
  EXPECT_LE(layout->bias_offset + 400, layout->permutation_offset);
  EXPECT_LE(layout->permutation_offset + 1332, layout->codebook_offset);
  EXPECT_LE(layout->codebook_offset + (int64_t{4} << header.bits),
            layout->total_bytes);
}

INSTANTIATE_TEST_SUITE_P(Recipes, TileLayoutTest,
                         ::testing::ValuesIn(Recipes()),
                         [](const auto& info) { return info.param.name; });

WeightsHeader Ternary(int64_t n, int64_t k) {
  WeightsHeader header =
      HeaderOf({"ternary", 2, 0, ScaleType::kFloat32, false, true}, n, k);
  header.codebook = {-1, 0, 1, 0};
  return header;
}

int CodesOf(const WeightsHeader& header) {
  const absl::StatusOr<TileLayout> layout =
      PlanTileLayout(header, DeviceTraits());
  return layout.ok() ? layout->codes : -1;
}

TEST(TileLayoutCodesTest, CodesWithZerosAreNumbers) {
  for (const int64_t group : {32, 128, 256}) {
    WeightsHeader header =
        HeaderOf({"int4", 4, group, ScaleType::kFloat16, true, true}, 64, 256);
    EXPECT_EQ(CodesOf(header), kNumberCodes);
    header.has_zeros = false;
    EXPECT_EQ(CodesOf(header), 4);
  }
}

TEST(TileLayoutCodesTest, OnlyWhatIsTernaryIsKeptSo) {
  EXPECT_EQ(CodesOf(Ternary(64, 256)), kTernaryCodes);
  WeightsHeader other_values = Ternary(64, 256);
  other_values.codebook[0] = -2;
  EXPECT_EQ(CodesOf(other_values), 2);
  EXPECT_EQ(CodesOf(HeaderOf({"kbit2", 2, 32, ScaleType::kE4m4, false, false},
                             64, 256)),
            2);
  EXPECT_EQ(CodesOf(HeaderOf({"q4_0", 4, 32, ScaleType::kFloat16, false, true},
                             64, 256)),
            4);
}

constexpr char kKbit4[] = "kbit4";

WeightsHeader Kbit4(int64_t n, int64_t k) {
  return HeaderOf({kKbit4, 4, 32, ScaleType::kE4m4, false, false}, n, k);
}

absl::Status Refusal(const WeightsHeader& header) {
  return PlanTileLayout(header, DeviceTraits()).status();
}

TEST(TileLayoutErrorsTest, ShapesBelowOne) {
  for (const WeightsHeader& header :
       {Kbit4(0, 128), Kbit4(16, 0), Kbit4(-1, 128), Kbit4(16, -128)}) {
    EXPECT_EQ(Refusal(header).code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(TileLayoutErrorsTest, ShapesThatWouldOverflow) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  for (const WeightsHeader& header :
       {Kbit4(kMax, kMax), Kbit4(kMax, 1), Kbit4(1, kMax),
        Kbit4(int64_t{1} << 26, int64_t{1} << 26)}) {
    EXPECT_EQ(Refusal(header).code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(TileLayoutErrorsTest, BitsThatNoKernelReads) {
  for (const int bits : {0, 1, 6, 8}) {
    WeightsHeader header = Kbit4(128, 128);
    header.bits = bits;
    const absl::Status status = Refusal(header);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(status.message(), HasSubstr("bits = " + std::to_string(bits)));
  }
}

TEST(TileLayoutErrorsTest, GroupsThatNoKernelReads) {
  WeightsHeader header = Kbit4(128, 1024);
  header.scale_type = ScaleType::kFloat16;
  header.group_size = 256;
  EXPECT_EQ(Refusal(header).code(), absl::StatusCode::kUnimplemented);
  header.group_size = 0;
  EXPECT_EQ(Refusal(header).code(), absl::StatusCode::kInvalidArgument);
}

TEST(TileLayoutErrorsTest, E4m4ScalesOfOtherGroups) {
  WeightsHeader header = Kbit4(128, 1024);
  header.group_size = 64;
  EXPECT_EQ(Refusal(header).code(), absl::StatusCode::kUnimplemented);
}

TEST(TileLayoutErrorsTest, ZerosOfCodesThatAreNoIntegers) {
  WeightsHeader header = Kbit4(128, 1024);
  header.has_zeros = true;
  EXPECT_EQ(Refusal(header).code(), absl::StatusCode::kUnimplemented);
}

// A chip that gives a block `shared_bytes` of shared memory.
absl::StatusOr<TileLayout> LayoutOn(int64_t shared_bytes,
                                    const WeightsHeader& header) {
  DeviceTraits device;
  device.compute_capability = 80;
  device.shared_bytes_per_block = shared_bytes;
  return PlanTileLayout(header, device);
}

TEST(TileLayoutSharedMemoryTest, KeepsToWhatTheChipGives) {
  for (const int64_t shared_bytes : {99 << 10, 163 << 10, 227 << 10}) {
    for (const int bits : {2, 3, 4, 5}) {
      WeightsHeader header = Kbit4(28672, 8192);
      header.bits = bits;
      const absl::StatusOr<TileLayout> layout = LayoutOn(shared_bytes, header);
      ASSERT_TRUE(layout.ok());
      if (!layout->has_decode_kernel) continue;
      DecodeSmemShape shape;
      shape.codes = bits;
      shape.tile_m = 64;
      shape.stage_bytes = static_cast<int>(layout->stage_bytes());
      shape.n_tiles = layout->tile_config.n_tiles;
      shape.k_warps = layout->tile_config.k_warps;
      shape.block_bytes = layout->block_bytes;
      ASSERT_GE(SlotsThatFit(shape), layout->tile_config.k_warps);
      EXPECT_LE(DecodeSmemLayoutOf(shape, layout->tile_config.k_warps).total,
                shared_bytes)
          << bits << " bits";
    }
  }
}

TEST(TileLayoutSharedMemoryTest, OnlyFiveBitsLackASmallFamily) {
  for (const int bits : {2, 3, 4, 5}) {
    WeightsHeader header = Kbit4(4096, 4096);
    header.bits = bits;
    const absl::StatusOr<TileLayout> layout = LayoutOn(kMinBlockBytes, header);
    ASSERT_TRUE(layout.ok());
    EXPECT_EQ(layout->has_decode_kernel, bits != 5);
  }
}

}  // namespace
}  // namespace qgemm::cuda
