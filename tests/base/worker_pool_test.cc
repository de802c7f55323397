// SPDX-License-Identifier: Apache-2.0
//
// Tasks run, in order, and all of them before the pool goes.

#include "base/worker_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

namespace qgemm {
namespace {

TEST(WorkerPool, RunsWhatIsQueuedBeforeItGoes) {
  constexpr int kTasks = 1000;
  std::atomic<int> ran{0};
  auto pool = std::make_unique<WorkerPool>(3);
  for (int i = 0; i < kTasks; ++i) pool->Submit([&ran] { ++ran; });
  pool.reset();
  EXPECT_EQ(ran, kTasks);
}

TEST(WorkerPool, KeepsTheOrderOnOneThread) {
  constexpr int kTasks = 100;
  std::vector<int> order;
  auto pool = std::make_unique<WorkerPool>(1);
  for (int i = 0; i < kTasks; ++i) pool->Submit([&, i] { order.push_back(i); });
  pool.reset();
  std::vector<int> expected(kTasks);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(order, expected);
}

TEST(WorkerPool, TakesTasksFromTasks) {
  std::atomic<int> ran{0};
  auto pool = std::make_unique<WorkerPool>(2);
  pool->Submit([&] {
    ++ran;
    pool->Submit([&] { ++ran; });
  });
  while (ran < 2) std::this_thread::yield();
  pool.reset();
  EXPECT_EQ(ran, 2);
}

}  // namespace
}  // namespace qgemm
