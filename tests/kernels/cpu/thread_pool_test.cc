// SPDX-License-Identifier: Apache-2.0
//
// Loops run every item once, whatever the threads do.

#include "kernels/cpu/thread_pool.h"

#include <atomic>
#include <vector>

#include "gtest/gtest.h"

namespace qgemm::cpu {
namespace {

class ThreadPoolTest : public testing::TestWithParam<int> {};

TEST_P(ThreadPoolTest, RunsEveryItemOnceInEveryLoop) {
  constexpr int kLoops = 300;
  ThreadPool pool(GetParam());
  for (int64_t count = 0; count < kLoops; ++count) {
    std::vector<std::atomic<int>> runs(count);
    pool.ParallelFor(count, [&runs](int64_t item) { ++runs[item]; });
    for (int64_t item = 0; item < count; ++item) {
      ASSERT_EQ(runs[item].load(), 1) << "item " << item << " of " << count;
    }
  }
}

TEST_P(ThreadPoolTest, DrawsGrowWithEveryItem) {
  ThreadPool pool(GetParam());
  const uint64_t before = pool.draws();
  for (uint64_t loops = 1; loops <= 20; ++loops) {
    const uint64_t begin = pool.draws();
    pool.ParallelFor(50, [&](int64_t item) {
      EXPECT_GT(pool.draws(), begin + static_cast<uint64_t>(item));
    });
    EXPECT_GE(pool.draws(), before + 50 * loops);
  }
}

TEST_P(ThreadPoolTest, HasTheThreadsItWasAskedFor) {
  EXPECT_EQ(ThreadPool(GetParam()).threads(), GetParam());
}

INSTANTIATE_TEST_SUITE_P(Threads, ThreadPoolTest, testing::Values(1, 2, 3, 8));

TEST(AvailableProcessorsTest, IsAtLeastOne) {
  EXPECT_GE(AvailableProcessors(), 1);
}

}  // namespace
}  // namespace qgemm::cpu
