// SPDX-License-Identifier: Apache-2.0

#include "base/heap_share.h"

#include <utility>

#include "gtest/gtest.h"

namespace qgemm {
namespace {

TEST(HeapShareTest, CountsWhatLives) {
  const int64_t before = HeapShare::TotalBytes();
  {
    const HeapShare one(100);
    HeapShare other(20);
    EXPECT_EQ(HeapShare::TotalBytes(), before + 120);
    other = HeapShare(7);
    EXPECT_EQ(HeapShare::TotalBytes(), before + 107);
  }
  EXPECT_EQ(HeapShare::TotalBytes(), before);
}

TEST(HeapShareTest, CopiesCountAgainAndMovesDoNot) {
  const int64_t before = HeapShare::TotalBytes();
  HeapShare one(100);
  HeapShare copy = one;
  EXPECT_EQ(HeapShare::TotalBytes(), before + 200);
  const HeapShare moved = std::move(one);
  EXPECT_EQ(HeapShare::TotalBytes(), before + 200);
  copy = HeapShare();
  EXPECT_EQ(HeapShare::TotalBytes(), before + 100);
}

}  // namespace
}  // namespace qgemm
