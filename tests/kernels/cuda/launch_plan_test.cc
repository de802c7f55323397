// SPDX-License-Identifier: Apache-2.0
//
// A plan covers every row once, keeps shared launches and those of one request
// apart, and cuts a long request alike whatever is beside it.

#include "kernels/cuda/plan/launch_plan.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/plan/a32_plan.h"
#include "kernels/cuda/plan/w4a8_plan.h"

namespace qgemm::cuda {
namespace {

constexpr BatchShape kShape = {64, 0, 0, 32};
// So wide that a launch has fewer rows than any may have.
constexpr BatchShape kLongRowShape = {2 << 20, 0, 0, 2 << 20};

std::vector<RowSegment> Segments(const std::vector<int64_t>& rows) {
  std::vector<RowSegment> segments;
  for (const int64_t count : rows) segments.push_back({count});
  return segments;
}

KernelPath AllByCublas(int64_t) { return KernelPath::kCublas; }

void ExpectCoversEachRowOnce(const std::vector<int64_t>& rows,
                             const BatchShape& shape) {
  const std::vector<RowSegment> segments = Segments(rows);
  LaunchPlan plan;
  plan.Make(segments, shape, AllByCublas);
  std::set<std::pair<int64_t, int64_t>> seen;
  for (const PlannedLaunch& launch : plan.launches()) {
    int64_t next = 0;
    const auto visit = [&](const Slice& slice) {
      EXPECT_EQ(slice.row_in_launch, next);
      next += slice.rows;
      for (int64_t row = 0; row < slice.rows; ++row) {
        EXPECT_TRUE(seen.insert({slice.segment, slice.row + row}).second);
      }
      return absl::OkStatus();
    };
    EXPECT_TRUE(
        ForEachSlice(segments, shape.max_shared_rows, launch, visit).ok());
    EXPECT_EQ(next, launch.rows);
    EXPECT_GE(launch.padded_rows, launch.rows);
  }
  int64_t all = 0;
  for (const int64_t count : rows) all += count;
  EXPECT_EQ(static_cast<int64_t>(seen.size()), all);
}

TEST(LaunchPlanTest, CoversEachRowOnce) {
  for (const int64_t max_shared_rows : {0, 64, 128, 1 << 30}) {
    for (BatchShape shape : {kShape, kLongRowShape}) {
      shape.max_shared_rows = max_shared_rows;
      ExpectCoversEachRowOnce({1}, shape);
      ExpectCoversEachRowOnce({64, 65, 1}, shape);
      ExpectCoversEachRowOnce({128, 129, 127}, shape);
      ExpectCoversEachRowOnce({1, 3, 16, 2, 65, 8, 1, 130, 33, 7, 40}, shape);
      ExpectCoversEachRowOnce({8192}, shape);
    }
  }
}

TEST(LaunchPlanTest, FillsSharedLaunches) {
  LaunchPlan plan;
  plan.Make(Segments({60, 60, 60, 60, 60, 60, 60, 60, 32}), kShape,
            AllByCublas);
  ASSERT_EQ(plan.launches().size(), 2);
  EXPECT_EQ(plan.launches()[0].rows, kMaxDecodeM);
  EXPECT_EQ(plan.launches()[1].rows, kMaxDecodeM);
}

TEST(LaunchPlanTest, PaddedSharedLaunchesAreOfOneBlockOfRows) {
  BatchShape shape = kShape;
  shape.shared_path = KernelPath::kCublas;
  LaunchPlan plan;
  plan.Make(Segments({60, 60, 8}), shape, AllByCublas);
  ASSERT_EQ(plan.launches().size(), 2);
  EXPECT_EQ(plan.launches()[0].rows, kDecodeBlockM);
  EXPECT_EQ(plan.launches()[1].rows, kDecodeBlockM);
}

TEST(LaunchPlanTest, LaunchesOfModesA8AndA32HaveRoomForWholeBlocksOfRows) {
  static_assert(kMaxA32M == kMaxW4A8M && kDecodeBlockM % kA32BlockM == 0,
                "one case for both");
  for (const KernelPath path : {KernelPath::kW4A8, KernelPath::kA32}) {
    BatchShape shape = kShape;
    shape.max_shared_rows = std::numeric_limits<int64_t>::max();
    shape.shared_path = path;
    LaunchPlan plan;
    plan.Make(Segments({1, 700, 400}), shape, AllByCublas);
    ASSERT_EQ(plan.launches().size(), 2);
    EXPECT_EQ(plan.launches()[0].path, path);
    EXPECT_EQ(plan.launches()[0].rows, kMaxA32M);
    EXPECT_EQ(plan.launches()[1].rows, 1101 - kMaxA32M);
    EXPECT_EQ(plan.launches()[1].padded_rows, 2 * kDecodeBlockM);
  }
}

TEST(LaunchPlanTest, CutsALongSharedSegmentToFullLaunches) {
  BatchShape shape = kShape;
  shape.max_shared_rows = 192;
  LaunchPlan plan;
  plan.Make(Segments({130, 192, 193}), shape, AllByCublas);
  std::vector<int64_t> shared;
  std::vector<int64_t> own;
  for (const PlannedLaunch& launch : plan.launches()) {
    (launch.shared ? shared : own).push_back(launch.rows);
  }
  EXPECT_EQ(shared, std::vector<int64_t>({256, 66}));
  EXPECT_EQ(own, std::vector<int64_t>({193}));
}

TEST(LaunchPlanTest, CutsALongSegmentAlikeInAnyBatch) {
  const auto rows_of_long = [](const std::vector<int64_t>& rows) {
    LaunchPlan plan;
    plan.Make(Segments(rows), kLongRowShape, AllByCublas);
    std::vector<int64_t> sizes;
    for (const PlannedLaunch& launch : plan.launches()) {
      if (rows[launch.segment] == 300) sizes.push_back(launch.rows);
    }
    return sizes;
  };
  const std::vector<int64_t> alone = rows_of_long({300});
  EXPECT_GT(alone.size(), 1);
  EXPECT_EQ(rows_of_long({65, 300, 2}), alone);
  EXPECT_EQ(rows_of_long({1, 1, 300, 4096}), alone);
}

TEST(LaunchPlanTest, PadsSharedLaunchesOfCublasAlone) {
  BatchShape shape = kShape;
  LaunchPlan plan;
  plan.Make(Segments({5}), shape, AllByCublas);
  EXPECT_EQ(plan.launches()[0].padded_rows, 5);
  shape.shared_path = KernelPath::kCublas;
  plan.Make(Segments({5}), shape, AllByCublas);
  EXPECT_EQ(plan.launches()[0].padded_rows, kDecodeBlockM);
}

TEST(LaunchPlanTest, BuffersOfAGroupDoNotOverlap) {
  LaunchPlan plan;
  const BatchShape shape = {100, 50, 52, 30};
  plan.Make(Segments({7, 70, 64, 4097, 1}), shape, AllByCublas);
  for (const LaunchGroup& group : plan.groups()) {
    int64_t end = 0;
    for (const PlannedLaunch& launch :
         plan.launches().subspan(group.first, group.count)) {
      const std::pair<int64_t, int64_t> buffers[] = {
          {launch.a_offset, shape.a_row_bytes},
          {launch.rounded_offset, shape.rounded_row_bytes},
          {launch.prepared_offset, shape.prepared_row_bytes},
          {launch.c_offset, shape.c_row_bytes}};
      for (const auto& [offset, row_bytes] : buffers) {
        EXPECT_EQ(offset % 256, 0);
        EXPECT_GE(offset, end);
        end = offset + launch.padded_rows * row_bytes;
      }
    }
    EXPECT_LE(end, plan.scratch_bytes());
  }
}

TEST(LaunchPlanTest, ChoosesThePathOfEachLaunchThatIsNotShared) {
  BatchShape shape = kShape;
  shape.max_shared_rows = 64;
  LaunchPlan plan;
  plan.Make(Segments({64, 100, 5000}), shape, [](int64_t rows) {
    return rows < 2000 ? KernelPath::kPrefill : KernelPath::kCublas;
  });
  std::vector<KernelPath> paths;
  for (const PlannedLaunch& launch : plan.launches()) {
    paths.push_back(launch.path);
  }
  // The last request is cut to 4096 and 904 rows.
  EXPECT_THAT(paths,
              testing::ElementsAre(KernelPath::kDecode, KernelPath::kPrefill,
                                   KernelPath::kCublas, KernelPath::kPrefill));
}

class HostTransferTest : public ::testing::Test {
 protected:
  HostTransfer Choose(const std::vector<int64_t>& rows) {
    const std::vector<RowSegment> segments = Segments(rows);
    LaunchPlan plan;
    plan.Make(segments, shape_, AllByCublas);
    return ChooseHostTransfer(plan, shape_, segments.size());
  }

  void SetUp() override {
    shape_.a_row_bytes = 8192;
    shape_.c_row_bytes = 8192;
  }

  BatchShape shape_;
};

TEST_F(HostTransferTest, KernelsMoveSmallBatchesOfOneLaunch) {
  EXPECT_EQ(Choose({1}), HostTransfer::kKernels);
  EXPECT_EQ(Choose(std::vector<int64_t>(64, 1)), HostTransfer::kKernels);
  EXPECT_EQ(Choose({16, 1, 40}), HostTransfer::kKernels);
}

TEST_F(HostTransferTest, DmaMovesMoreThanOneLaunch) {
  EXPECT_EQ(Choose({1, 100}), HostTransfer::kDma);
  EXPECT_EQ(Choose(std::vector<int64_t>(65, 1)), HostTransfer::kDma);
}

TEST_F(HostTransferTest, DmaMovesManyBytes) {
  const int64_t most = kMaxMovedBytes / (8192 + 8192);
  EXPECT_EQ(Choose({most}), HostTransfer::kKernels);
  EXPECT_EQ(Choose({most + 1}), HostTransfer::kDma);
}

TEST_F(HostTransferTest, DmaMovesRowsOfOddSizes) {
  shape_.a_row_bytes = 8192 + 2;
  EXPECT_EQ(Choose({1}), HostTransfer::kDma);
  shape_.a_row_bytes = 8192;
  shape_.c_row_bytes = 8;
  EXPECT_EQ(Choose({1}), HostTransfer::kDma);
}

}  // namespace
}  // namespace qgemm::cuda
