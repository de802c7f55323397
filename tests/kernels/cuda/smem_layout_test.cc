// SPDX-License-Identifier: Apache-2.0
//
// Shared memory of the prefill kernel for every format of layers: parts lie
// apart and aligned, within what a block may take, with rings that hide
// latency.

#include "kernels/cuda/plan/smem_layout.h"

#include <cstdint>
#include <ostream>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/layout/tile_layout.h"
#include "kernels/cuda/plan/prefill_plan.h"
#include "kernels/cuda/plan/tile_plan.h"
#include "kernels/matrix/weights.h"

namespace qgemm::cuda {
namespace {

// Alignment that the hardware asks of addresses in shared memory: a panel in
// the 128-byte swizzle, the target of a bulk copy, a vector of 16 bytes, a
// barrier.
constexpr int kSwizzleBytes = 1024;
constexpr int kCopyBytes = 16;
constexpr int kVectorBytes = 16;
constexpr int kBarrierAlignment = 8;

struct Format {
  const char* name;
  int codes;
  ScaleType scale_type;
  int64_t group_size;
  bool has_zeros;
};

constexpr int64_t kColumns = 1024;

// Each kind of layer that the kernels multiply.
constexpr Format kFormats[] = {
    {"kbit2", 2, ScaleType::kE4m4, 32, false},
    {"kbit3", 3, ScaleType::kE4m4, 32, false},
    {"kbit4", 4, ScaleType::kE4m4, 32, false},
    {"kbit5", 5, ScaleType::kE4m4, 32, false},
    {"ternary", kTernaryCodes, ScaleType::kFloat32, kColumns, false},
    {"row2", 2, ScaleType::kFloat32, kColumns, false},
    {"row3", 3, ScaleType::kFloat32, kColumns, false},
    {"row4", 4, ScaleType::kFloat32, kColumns, false},
    {"row4_zeros", kNumberCodes, ScaleType::kFloat32, kColumns, true},
    {"row5", 5, ScaleType::kFloat32, kColumns, false},
    {"fp16", 4, ScaleType::kFloat16, 128, false},
    {"fp16_zeros", kNumberCodes, ScaleType::kFloat16, 128, true},
    {"bf16", 4, ScaleType::kBFloat16, 128, false},
    {"bf16_zeros", kNumberCodes, ScaleType::kBFloat16, 128, true},
    {"fp32", 4, ScaleType::kFloat32, 128, false},
    {"fp32_zeros", kNumberCodes, ScaleType::kFloat32, 128, true},
};

int StageBytesOf(const Format& format) {
  WeightsHeader header;
  header.n = 1000;
  header.k = kColumns;
  header.bits = BitsOf(format.codes);
  if (format.codes == kTernaryCodes) header.codebook = {-1, 0, 1, 0};
  header.group_size = format.group_size;
  header.scale_type = format.scale_type;
  header.has_zeros = format.has_zeros;
  header.integer_codes = format.has_zeros;
  const auto layout = PlanTileLayout(header, DeviceTraits());
  EXPECT_TRUE(layout.ok()) << layout.status();
  return static_cast<int>(layout->tile_bytes()) * kPrefillNTiles;
}

struct Case {
  Format format;
  int tile_m;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.format.name << "_" << c.tile_m;
}

// Those for which there is room.
std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const Format& format : kFormats) {
    for (const int tile_m : kPrefillTileMs) {
      if (PrefillSmemLayoutOf(format.codes, tile_m, StageBytesOf(format))
              .panels > 0) {
        cases.push_back({format, tile_m});
      }
    }
  }
  return cases;
}

class PrefillSmemLayoutTest : public ::testing::TestWithParam<Case> {
 protected:
  const int codes_ = GetParam().format.codes;
  const int panel_bytes_ = PrefillPanelBytes(GetParam().tile_m);
  const int stage_bytes_ = StageBytesOf(GetParam().format);
  const PrefillSmemLayout plan_ =
      PrefillSmemLayoutOf(codes_, GetParam().tile_m, stage_bytes_);
};

TEST_P(PrefillSmemLayoutTest, FitsWithinABlock) {
  EXPECT_LE(plan_.total, kMaxBlockBytes);
}

TEST_P(PrefillSmemLayoutTest, PartsAreAligned) {
  EXPECT_EQ(plan_.panels_offset % kSwizzleBytes, 0);
  EXPECT_EQ(panel_bytes_ % kSwizzleBytes, 0);
  EXPECT_EQ(plan_.stages_offset % kCopyBytes, 0);
  EXPECT_EQ(stage_bytes_ % kCopyBytes, 0);
  EXPECT_EQ(plan_.staged_offset % kVectorBytes, 0);
  EXPECT_EQ(plan_.barriers_offset % kBarrierAlignment, 0);
}

TEST_P(PrefillSmemLayoutTest, PartsLieApart) {
  EXPECT_GE(plan_.panels_offset, TableBytes(codes_));
  EXPECT_GE(plan_.stages_offset,
            plan_.panels_offset + plan_.panels * panel_bytes_);
  EXPECT_GE(plan_.barriers_offset,
            plan_.stages_offset + plan_.stages * stage_bytes_);
  EXPECT_GE(plan_.total, plan_.barriers_offset +
                             (plan_.panels + plan_.stages) * kBarrierBytes);
}

// Rows of the table hold 128 bytes that lookups read; results come behind them
// or into memory of their own.
TEST_P(PrefillSmemLayoutTest, StagedResultsMeetNothing) {
  const int stride = StagedRowStride(codes_);
  const int end = plan_.staged_offset +
                  (kPrefillGroups * StagedRows(codes_) - 1) * stride +
                  kStagedRowBytes;
  if (TableHasRoom(codes_)) {
    EXPECT_EQ(plan_.staged_offset, 128);
    EXPECT_EQ(stride, 256);
    EXPECT_LE(end, TableBytes(codes_));
    return;
  }
  EXPECT_GE(plan_.staged_offset,
            plan_.stages_offset + plan_.stages * stage_bytes_);
  EXPECT_LE(end, plan_.barriers_offset);
}

// One stage is multiplied while the next one comes.
TEST_P(PrefillSmemLayoutTest, RingsHoldTwoStages) {
  EXPECT_GE(plan_.panels, 2 * 2);
  EXPECT_GE(plan_.stages, 2);
  EXPECT_LE(plan_.panels, kMaxPrefillPanels);
  EXPECT_LE(plan_.stages, kMaxPrefillStages);
}

INSTANTIATE_TEST_SUITE_P(Formats, PrefillSmemLayoutTest,
                         ::testing::ValuesIn(Cases()),
                         ::testing::PrintToStringParamName());

TEST(PrefillSmemLayoutOfTest, HasRoomForWhatIsOffered) {
  for (const Format& format : kFormats) {
    const ScaleKind scale =
        format.scale_type == ScaleType::kE4m4 ? ScaleKind::kE4m4
        : format.group_size == kColumns       ? ScaleKind::kRow
                                              : ScaleKind::kFloat16;
    for (const int tile_m : kPrefillTileMs) {
      if (tile_m > 128 && !OffersTallTiles(format.codes, scale)) continue;
      EXPECT_GT(PrefillSmemLayoutOf(format.codes, tile_m, StageBytesOf(format))
                    .panels,
                0)
          << format.name << " by " << tile_m;
    }
  }
}

TEST(PrefillSmemLayoutOfTest, HasNoPanelsWhereTwoStagesDoNotFit) {
  EXPECT_EQ(PrefillSmemLayoutOf(4, 128, kMaxBlockBytes).panels, 0);
}

}  // namespace
}  // namespace qgemm::cuda
