// SPDX-License-Identifier: Apache-2.0
//
// Batches leave in the order they came, also around the ring's growth.

#include "kernels/cpu/batch_queue.h"

#include <thread>

#include "gtest/gtest.h"

namespace qgemm {
namespace {

QueuedBatch Marked(int64_t rows) {
  QueuedBatch queued;
  queued.batch.segments = {{rows, nullptr, nullptr}};
  return queued;
}

TEST(BatchQueueTest, IsFirstInFirstOutAcrossGrowth) {
  BatchQueue queue;
  int64_t pushed = 0;
  int64_t popped = 0;
  // Pops one of three pushes, so that the ring wraps before it grows.
  for (int round = 0; round < 40; ++round) {
    for (int i = 0; i < 3; ++i) queue.Push(Marked(++pushed));
    EXPECT_EQ(queue.Pop()->batch.rows(), ++popped);
  }
  while (popped < pushed) EXPECT_EQ(queue.Pop()->batch.rows(), ++popped);
}

TEST(BatchQueueTest, GivesWhatIsLeftAfterClose) {
  BatchQueue queue;
  queue.Push(Marked(7));
  queue.Close();
  EXPECT_EQ(queue.Pop()->batch.rows(), 7);
  EXPECT_FALSE(queue.Pop().has_value());
}

TEST(BatchQueueTest, CloseWakesAWaitingPop) {
  BatchQueue queue;
  bool ended = false;
  std::thread popper([&] { ended = !queue.Pop().has_value(); });
  queue.Close();
  popper.join();
  EXPECT_TRUE(ended);
}

}  // namespace
}  // namespace qgemm
