// SPDX-License-Identifier: Apache-2.0
//
// Copies are enough that no weight is read from a cache.

#include "bench/rotation.h"

#include "gtest/gtest.h"

namespace qgemm {
namespace {

constexpr int64_t kMebibyte = int64_t{1} << 20;

TEST(RotationTest, LargeLayersHaveTwentyCopies) {
  EXPECT_EQ(CopiesFor(125 * kMebibyte, 400 * kMebibyte), 20);
}

TEST(RotationTest, SmallLayersHaveAsManyAsMakeTheTotal) {
  EXPECT_EQ(CopiesFor(3 * kMebibyte, 400 * kMebibyte), 134);
  EXPECT_EQ(CopiesFor(1000, 400 * kMebibyte), 1024);
}

TEST(RotationTest, ReplaysReadTwiceTheCache) {
  EXPECT_EQ(LeastLaunches(30 * kMebibyte, 50 * kMebibyte, 20), 4);
  EXPECT_EQ(LeastLaunches(125 * kMebibyte, 50 * kMebibyte, 20), 1);
}

TEST(RotationTest, ReplaysVisitNoCopyTwice) {
  EXPECT_EQ(LeastLaunches(kMebibyte, 50 * kMebibyte, 20), 20);
}

}  // namespace
}  // namespace qgemm
