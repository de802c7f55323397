// SPDX-License-Identifier: Apache-2.0

#include "base/recycler.h"

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "base/fifo_queue.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

struct Held {
  std::shared_ptr<int> value;

  void PrefetchOwned() const {}
  void Clear() { value = nullptr; }
};

TEST(RecyclerTest, AnObjectComesBackClear) {
  Recycler<Held> recycler;
  const auto value = std::make_shared<int>(1);
  Held* const first = recycler.Take();
  first->value = value;
  recycler.Return(first);
  EXPECT_EQ(value.use_count(), 2);
  Held* const second = recycler.Take();
  EXPECT_EQ(second, first);
  EXPECT_EQ(value.use_count(), 1);
}

TEST(RecyclerTest, ObjectsThatAreOutAreNotGivenAgain) {
  Recycler<Held> recycler;
  Held* const first = recycler.Take();
  Held* const second = recycler.Take();
  EXPECT_NE(first, second);
  recycler.Return(first);
  EXPECT_EQ(recycler.Take(), first);
}

TEST(RecyclerTest, CollectClearsWhatNobodyTakes) {
  Recycler<Held> recycler;
  const auto value = std::make_shared<int>(1);
  Held* const held = recycler.Take();
  held->value = value;
  recycler.Return(held);
  recycler.Collect();
  EXPECT_EQ(value.use_count(), 1);
  EXPECT_EQ(recycler.Take(), held);
}

TEST(RecyclerTest, OtherThreadsGiveBackAndCollect) {
  Recycler<Held> recycler;
  FifoQueue<Held*> filled;
  std::atomic<bool> ended{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      while (auto held = filled.Pop()) recycler.Return(*held);
    });
  }
  threads.emplace_back([&] {
    while (!ended) recycler.Collect();
  });
  const auto value = std::make_shared<int>(1);
  for (int i = 0; i < 10000; ++i) {
    Held* const held = recycler.Take();
    ASSERT_EQ(held->value, nullptr);
    held->value = value;
    filled.Push(held);
  }
  filled.Close();
  threads[0].join();
  threads[1].join();
  ended = true;
  threads[2].join();
  recycler.Collect();
  EXPECT_EQ(value.use_count(), 1);
}

}  // namespace
}  // namespace qgemm
