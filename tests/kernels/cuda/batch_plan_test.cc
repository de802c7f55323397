// SPDX-License-Identifier: Apache-2.0
//
// A plan covers every row once, keeps families apart, and cuts a large segment
// alike whatever is beside it.

#include "kernels/cuda/tuning/batch_plan.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qgemm::cuda {
namespace {

constexpr BatchShape kShape = {64, 0, 0, 32};
// So wide that a piece has fewer rows than the family's most.
constexpr BatchShape kWideShape = {2 << 20, 0, 0, 2 << 20};

std::vector<RowSegment> Segments(const std::vector<int64_t>& rows) {
  std::vector<RowSegment> segments;
  for (const int64_t count : rows) segments.push_back({count});
  return segments;
}

void ExpectCoversEachRowOnce(const std::vector<int64_t>& rows,
                             const BatchShape& shape) {
  const std::vector<RowSegment> segments = Segments(rows);
  BatchPlan plan;
  plan.Make(segments, shape);
  std::set<std::pair<int64_t, int64_t>> seen;
  for (const Piece& piece : plan.pieces()) {
    int64_t next = 0;
    const auto visit = [&](const Slice& slice) {
      EXPECT_EQ(slice.row_in_piece, next);
      next += slice.rows;
      for (int64_t row = 0; row < slice.rows; ++row) {
        EXPECT_TRUE(seen.insert({slice.segment, slice.row + row}).second);
      }
      return absl::OkStatus();
    };
    EXPECT_TRUE(
        ForEachSlice(segments, shape.max_small_segment, piece, visit).ok());
    EXPECT_EQ(next, piece.rows);
    EXPECT_GE(piece.padded_rows, piece.rows);
  }
  int64_t all = 0;
  for (const int64_t count : rows) all += count;
  EXPECT_EQ(static_cast<int64_t>(seen.size()), all);
}

TEST(BatchPlanTest, CoversEachRowOnce) {
  for (const int64_t max_small_segment : {0, 64, 128, 1 << 30}) {
    for (BatchShape shape : {kShape, kWideShape}) {
      shape.max_small_segment = max_small_segment;
      ExpectCoversEachRowOnce({1}, shape);
      ExpectCoversEachRowOnce({64, 65, 1}, shape);
      ExpectCoversEachRowOnce({128, 129, 127}, shape);
      ExpectCoversEachRowOnce({1, 3, 16, 2, 65, 8, 1, 130, 33, 7, 40}, shape);
      ExpectCoversEachRowOnce({8192}, shape);
    }
  }
}

TEST(FamilyChoiceTest, HasANameEach) {
  EXPECT_EQ(*ParseFamilyChoice("auto"), FamilyChoice::kByRows);
  EXPECT_EQ(*ParseFamilyChoice("small"), FamilyChoice::kAlwaysSmall);
  EXPECT_EQ(*ParseFamilyChoice("wide"), FamilyChoice::kAlwaysWide);
  EXPECT_EQ(*ParseFamilyChoice("large"), FamilyChoice::kAlwaysLarge);
  const absl::Status status = ParseFamilyChoice("medium").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr("kernel = \"medium\"; legal: auto"));
}

// Elements of a layer that the second-level cache does not hold.
constexpr int64_t kLargeLayer = int64_t{8192} * 28672;

TEST(FamilyPolicyTest, GoesByRowsAndTheWidthOfTheCodes) {
  FamilyPolicy policy;
  policy.tuning.max_small_rows = {64, 128, 192, 4096};
  EXPECT_EQ(MaxSmallSegment(policy, {2, kLargeLayer}), 64);
  EXPECT_EQ(MaxSmallSegment(policy, {3, kLargeLayer}), 128);
  EXPECT_EQ(MaxSmallSegment(policy, {4, kLargeLayer}), 192);
  EXPECT_EQ(MaxSmallSegment(policy, {5, kLargeLayer}), 4096);
  EXPECT_EQ(FamilyOf(192, MaxSmallSegment(policy, {4, kLargeLayer})),
            Family::kSmall);
  EXPECT_EQ(FamilyOf(193, MaxSmallSegment(policy, {4, kLargeLayer})),
            Family::kLarge);
}

TEST(FamilyPolicyTest, OfADenseLayerIsThatOfOneLaunch) {
  FamilyPolicy policy;
  policy.tuning.max_small_rows = {1024, 1024, 1024, 1024};
  EXPECT_EQ(MaxSmallSegment(policy, {0, kLargeLayer}), kMaxSmallRows);
}

TEST(FamilyPolicyTest, SmallLayersHaveShorterSegments) {
  FamilyPolicy policy;
  policy.tuning.max_small_rows = {1024, 1024, 1024, 64};
  EXPECT_EQ(MaxSmallSegment(policy, {4, int64_t{1024} * 4096}), 64);
  EXPECT_EQ(MaxSmallSegment(policy, {4, int64_t{4096} * 4096}), 128);
  EXPECT_EQ(MaxSmallSegment(policy, {5, int64_t{4096} * 4096}), 64);
  EXPECT_EQ(MaxSmallSegment(policy, {4, int64_t{4096} * 11008}), 1024);
  EXPECT_EQ(MaxSmallSegment(policy, {0, int64_t{4096} * 11008}), 64);
}

TEST(FamilyPolicyTest, GoesByTheWideFamilyWhereThereIsOne) {
  FamilyPolicy policy;
  policy.tuning.max_small_rows = {1024, 1024, 128, 1024};
  EXPECT_EQ(MaxSmallSegment(policy, {3, kLargeLayer, 192}), 192);
  EXPECT_EQ(MaxSmallSegment(policy, {4, kLargeLayer, 192}), 128);
  EXPECT_EQ(MaxSmallSegment(policy, {3, int64_t{1024} * 4096, 256}), 256);
  EXPECT_EQ(MaxSmallSegment(policy, {0, kLargeLayer, 0}), kMaxSmallRows);
}

TEST(FamilyPolicyTest, AForcedFamilyTakesEverySegment) {
  FamilyPolicy policy;
  for (const int bits : {0, 2, 3, 4, 5}) {
    for (const int64_t rows : {1, 64, 65, 8192}) {
      policy.choice = FamilyChoice::kAlwaysSmall;
      EXPECT_EQ(FamilyOf(rows, MaxSmallSegment(policy, {bits, kLargeLayer})),
                Family::kSmall);
      for (const FamilyChoice many :
           {FamilyChoice::kAlwaysWide, FamilyChoice::kAlwaysLarge}) {
        policy.choice = many;
        EXPECT_EQ(FamilyOf(rows, MaxSmallSegment(policy, {bits, kLargeLayer})),
                  Family::kLarge);
      }
    }
  }
}

TEST(BatchPlanTest, MergesSmallSegmentsToFullLaunches) {
  BatchPlan plan;
  plan.Make(Segments({60, 60, 60, 60, 60, 60, 60, 60, 32}), kShape);
  ASSERT_EQ(plan.pieces().size(), 2);
  EXPECT_EQ(plan.pieces()[0].rows, kMaxSmallLaunchRows);
  EXPECT_EQ(plan.pieces()[1].rows, kMaxSmallLaunchRows);
}

TEST(BatchPlanTest, PaddedSmallLaunchesAreOfOneBlockOfRows) {
  BatchShape shape = kShape;
  shape.pads_small = true;
  BatchPlan plan;
  plan.Make(Segments({60, 60, 8}), shape);
  ASSERT_EQ(plan.pieces().size(), 2);
  EXPECT_EQ(plan.pieces()[0].rows, kMaxSmallRows);
  EXPECT_EQ(plan.pieces()[1].rows, kMaxSmallRows);
}

TEST(BatchPlanTest, CutsALongSmallSegmentToFullLaunches) {
  BatchShape shape = kShape;
  shape.max_small_segment = 192;
  BatchPlan plan;
  plan.Make(Segments({130, 192, 193}), shape);
  std::vector<int64_t> small;
  std::vector<int64_t> large;
  for (const Piece& piece : plan.pieces()) {
    (piece.family == Family::kSmall ? small : large).push_back(piece.rows);
  }
  EXPECT_EQ(small, std::vector<int64_t>({256, 66}));
  EXPECT_EQ(large, std::vector<int64_t>({193}));
}

TEST(BatchPlanTest, CutsALargeSegmentAlikeInAnyBatch) {
  const auto rows_of_large = [](const std::vector<int64_t>& rows) {
    BatchPlan plan;
    plan.Make(Segments(rows), kWideShape);
    std::vector<int64_t> sizes;
    for (const Piece& piece : plan.pieces()) {
      if (rows[piece.segment] == 300) sizes.push_back(piece.rows);
    }
    return sizes;
  };
  const std::vector<int64_t> alone = rows_of_large({300});
  EXPECT_GT(alone.size(), 1);
  EXPECT_EQ(rows_of_large({65, 300, 2}), alone);
  EXPECT_EQ(rows_of_large({1, 1, 300, 4096}), alone);
}

TEST(BatchPlanTest, PadsSmallLaunchesOnlyWhereAsked) {
  BatchShape shape = kShape;
  BatchPlan plan;
  plan.Make(Segments({5}), shape);
  EXPECT_EQ(plan.pieces()[0].padded_rows, 5);
  shape.pads_small = true;
  plan.Make(Segments({5}), shape);
  EXPECT_EQ(plan.pieces()[0].padded_rows, kMaxSmallRows);
}

TEST(BatchPlanTest, BuffersOfAWaveDoNotOverlap) {
  BatchPlan plan;
  const BatchShape shape = {100, 50, 52, 30};
  plan.Make(Segments({7, 70, 64, 4097, 1}), shape);
  for (const Wave& wave : plan.waves()) {
    int64_t end = 0;
    for (const Piece& piece : plan.pieces().subspan(wave.first, wave.count)) {
      const std::pair<int64_t, int64_t> buffers[] = {
          {piece.a_offset, shape.a_row_bytes},
          {piece.rounded_offset, shape.rounded_row_bytes},
          {piece.prepared_offset, shape.prepared_row_bytes},
          {piece.c_offset, shape.c_row_bytes}};
      for (const auto& [offset, row_bytes] : buffers) {
        EXPECT_EQ(offset % 256, 0);
        EXPECT_GE(offset, end);
        end = offset + piece.padded_rows * row_bytes;
      }
    }
    EXPECT_LE(end, plan.scratch_bytes());
  }
}

}  // namespace
}  // namespace qgemm::cuda
