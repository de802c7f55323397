// SPDX-License-Identifier: Apache-2.0
//
// Values leave in the order they came, also around the ring's growth.

#include "base/fifo_queue.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace qgemm {
namespace {

TEST(FifoQueueTest, IsFirstInFirstOutAcrossGrowth) {
  FifoQueue<std::unique_ptr<int>> queue;
  int pushed = 0;
  int popped = 0;
  // Pops one of three pushes, so that the ring wraps before it grows.
  for (int round = 0; round < 40; ++round) {
    for (int i = 0; i < 3; ++i) queue.Push(std::make_unique<int>(++pushed));
    EXPECT_EQ(**queue.Pop(), ++popped);
    EXPECT_EQ(queue.size(), pushed - popped);
  }
  while (popped < pushed) EXPECT_EQ(**queue.TryPop(), ++popped);
  EXPECT_FALSE(queue.TryPop().has_value());
}

TEST(FifoQueueTest, GivesTheRestAfterClose) {
  FifoQueue<int> queue;
  queue.Push(7);
  queue.Close();
  queue.Push(8);
  EXPECT_EQ(queue.Pop(), 7);
  EXPECT_EQ(queue.Pop(), 8);
  EXPECT_EQ(queue.Pop(), std::nullopt);
}

TEST(FifoQueueTest, CloseWakesEveryWaitingPop) {
  FifoQueue<int> queue;
  std::atomic<int> ended{0};
  std::vector<std::thread> poppers;
  for (int i = 0; i < 3; ++i) {
    poppers.emplace_back([&] { ended += queue.Pop().has_value() ? 0 : 1; });
  }
  queue.Close();
  for (std::thread& popper : poppers) popper.join();
  EXPECT_EQ(ended, 3);
}

TEST(FifoQueueTest, LosesNothingBetweenThreads) {
  FifoQueue<int64_t> queue;
  std::atomic<int64_t> sum{0};
  std::vector<std::thread> poppers;
  for (int i = 0; i < 3; ++i) {
    poppers.emplace_back([&] {
      while (const std::optional<int64_t> value = queue.Pop()) sum += *value;
    });
  }
  constexpr int64_t kValues = 10'000;
  for (int64_t value = 1; value <= kValues; ++value) queue.Push(value);
  queue.Close();
  for (std::thread& popper : poppers) popper.join();
  EXPECT_EQ(sum, kValues * (kValues + 1) / 2);
}

}  // namespace
}  // namespace qgemm
