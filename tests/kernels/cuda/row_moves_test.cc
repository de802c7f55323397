// SPDX-License-Identifier: Apache-2.0
//
// Which batches' rows kernels move.

#include "kernels/cuda/tuning/row_moves.h"

#include <vector>

#include "gtest/gtest.h"

namespace qgemm::cuda {
namespace {

class RowMovesTest : public ::testing::Test {
 protected:
  bool ByKernels(const std::vector<int64_t>& rows,
                 RowMoves moves = RowMoves::kBySize) {
    std::vector<RowSegment> segments;
    for (const int64_t count : rows) segments.push_back({count});
    BatchPlan plan;
    plan.Make(segments, shape_);
    return MovesByKernels(plan, shape_, segments.size(), moves);
  }

  void SetUp() override {
    shape_.a_row_bytes = 8192;
    shape_.c_row_bytes = 8192;
  }

  BatchShape shape_;
};

TEST_F(RowMovesTest, KernelsMoveSmallBatchesOfOneLaunch) {
  EXPECT_TRUE(ByKernels({1}));
  EXPECT_TRUE(ByKernels(std::vector<int64_t>(64, 1)));
  EXPECT_TRUE(ByKernels({16, 1, 40}));
}

TEST_F(RowMovesTest, CopyEnginesMoveWhatIsMoreThanOneLaunch) {
  EXPECT_FALSE(ByKernels({1, 100}));
  EXPECT_FALSE(ByKernels(std::vector<int64_t>(65, 1)));
}

TEST_F(RowMovesTest, CopyEnginesMoveManyBytes) {
  const int64_t most = kMaxMovedBytes / (8192 + 8192);
  EXPECT_TRUE(ByKernels({most}));
  EXPECT_FALSE(ByKernels({most + 1}));
}

TEST_F(RowMovesTest, CopyEnginesMoveRowsOfOddSizes) {
  shape_.a_row_bytes = 8192 + 2;
  EXPECT_FALSE(ByKernels({1}));
  shape_.a_row_bytes = 8192;
  shape_.c_row_bytes = 8;
  EXPECT_FALSE(ByKernels({1}));
}

TEST_F(RowMovesTest, CopyEnginesMoveAllWhereTheyAreAskedTo) {
  EXPECT_FALSE(ByKernels({1}, RowMoves::kByCopyEngines));
}

TEST(RowMovesNameTest, IsAutoOrCopyEngines) {
  EXPECT_EQ(*ParseRowMoves("auto"), RowMoves::kBySize);
  EXPECT_EQ(*ParseRowMoves("copy_engines"), RowMoves::kByCopyEngines);
  EXPECT_EQ(ParseRowMoves("kernels").status().message(),
            "cuda backend: row_moves = \"kernels\"; legal: auto, "
            "copy_engines");
}

}  // namespace
}  // namespace qgemm::cuda
