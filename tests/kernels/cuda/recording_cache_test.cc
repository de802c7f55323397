// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/plan/recording_cache.h"

#include "gtest/gtest.h"

namespace qgemm::cuda {
namespace {

using Cache = RecordingCache<int, int>;

TEST(RecordingCacheTest, FindsWhatWasAdded) {
  Cache cache(2);
  EXPECT_EQ(cache.Find(1), nullptr);
  EXPECT_EQ(*cache.Add(1, 10), 10);
  ASSERT_NE(cache.Find(1), nullptr);
  EXPECT_EQ(*cache.Find(1), 10);
  cache.Clear();
  EXPECT_EQ(cache.Find(1), nullptr);
}

TEST(RecordingCacheTest, DropsTheOneUsedLongestAgo) {
  Cache cache(2);
  cache.Add(1, 10);
  cache.Add(2, 20);
  cache.Find(1);
  cache.Add(3, 30);
  EXPECT_EQ(cache.size(), 2u);
  EXPECT_NE(cache.Find(1), nullptr);
  EXPECT_EQ(cache.Find(2), nullptr);
  EXPECT_NE(cache.Find(3), nullptr);
}

TEST(RecordingCacheTest, HasNoRoomWhileAllAreInUse) {
  Cache cache(4);
  for (int key = 0; key < 4; ++key) {
    EXPECT_TRUE(cache.HasRoom());
    cache.Add(key, key);
  }
  for (int use = 0; use < 1000; ++use) {
    EXPECT_NE(cache.Find(use % 4), nullptr);
    EXPECT_FALSE(cache.HasRoom());
  }
}

TEST(RecordingCacheTest, OneThatIsNotUsedMakesRoomAfterAWhile) {
  Cache cache(4);
  for (int key = 0; key < 4; ++key) cache.Add(key, key);
  int uses = 0;
  while (!cache.HasRoom() && uses < 1000) cache.Find(1 + uses++ % 3);
  EXPECT_LT(uses, 1000);
  EXPECT_EQ(cache.Find(0), nullptr);
  EXPECT_EQ(cache.size(), 3u);
}

}  // namespace
}  // namespace qgemm::cuda
