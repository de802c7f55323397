// SPDX-License-Identifier: Apache-2.0
//
// Sizes of resident layers, and the layers that have no layout.

#include "gtest/gtest.h"
#include "kernels/cpu/cpu_weights.h"

namespace qgemm::cpu {
namespace {

WeightsHeader FourBitHeader(int64_t n, int64_t k) {
  WeightsHeader header;
  header.n = n;
  header.k = k;
  header.bits = 4;
  header.group_size = 32;
  header.scale_type = ScaleType::kE4m4;
  return header;
}

TEST(PackedLayoutTest, WholeTilesTakeCodesAndScalesOnly) {
  const auto layout = LayoutOf(FourBitHeader(4096, 1024));
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(layout->total_bytes, 4096 * 1024 / 2 + 4096 * 1024 / 32);
}

TEST(PackedLayoutTest, RaggedRowsAndColumnsArePadded) {
  const auto layout = LayoutOf(FourBitHeader(17, 33));
  ASSERT_TRUE(layout.ok()) << layout.status();
  // Two tiles of two blocks of 4 * 64 bytes; two tiles of two groups of 16.
  EXPECT_EQ(layout->total_bytes, 2 * 2 * 256 + 2 * 2 * 16);
}

TEST(PackedLayoutTest, EveryPartIsAligned) {
  WeightsHeader header = FourBitHeader(17, 33);
  header.has_zeros = true;
  header.bias.resize(17);
  header.permutation.resize(33);
  const auto layout = LayoutOf(header);
  ASSERT_TRUE(layout.ok()) << layout.status();
  for (int64_t offset :
       {layout->scales_offset, layout->zeros_offset, layout->bias_offset,
        layout->permutation_offset, layout->total_bytes}) {
    EXPECT_EQ(offset % 64, 0) << offset;
  }
}

TEST(PackedLayoutTest, RowOfOneGroupHasOneScale) {
  WeightsHeader header = FourBitHeader(16, 1000);
  header.group_size = 1000;
  const auto layout = LayoutOf(header);
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(layout->groups, 1);
  EXPECT_EQ((layout->blocks - 1) >> layout->group_shift, 0);
}

TEST(PackedLayoutTest, EmptyShapeIsInvalid) {
  EXPECT_EQ(LayoutOf(FourBitHeader(0, 32)).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(PackedLayoutTest, ShapeBeyond64BitsIsInvalid) {
  const int64_t huge = int64_t{1} << 62;
  EXPECT_EQ(LayoutOf(FourBitHeader(huge, huge)).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(PackedLayoutTest, OtherWidthIsUnimplemented) {
  WeightsHeader header = FourBitHeader(16, 32);
  header.bits = 8;
  EXPECT_EQ(LayoutOf(header).status().code(), absl::StatusCode::kUnimplemented);
}

TEST(PackedLayoutTest, OtherGroupSizeIsUnimplemented) {
  WeightsHeader header = FourBitHeader(16, 256);
  header.group_size = 48;
  EXPECT_EQ(LayoutOf(header).status().code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace qgemm::cpu
