// SPDX-License-Identifier: Apache-2.0

#include "base/live_count.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace qgemm {
namespace {

TEST(LiveCount, DoesNotWaitForNothing) {
  LiveCount count;
  count.WaitUntilNone();
  count.Add();
  count.Remove();
  count.WaitUntilNone();
}

TEST(LiveCount, WaitsForTheLast) {
  constexpr int kThreads = 4;
  LiveCount count;
  std::atomic<int> ended{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    count.Add();
    threads.emplace_back([&] {
      ++ended;
      count.Remove();
    });
  }
  count.WaitUntilNone();
  EXPECT_EQ(ended, kThreads);
  for (std::thread& thread : threads) thread.join();
}

// Threads' writes before their Remove are visible; a lost one would hang. The
// count goes as soon as it was waited for, which sanitizers would see.
TEST(LiveCount, MayGoAfterTheWait) {
  constexpr int kRounds = 500;
  constexpr int kThreads = 3;
  for (int round = 0; round < kRounds; ++round) {
    auto count = std::make_unique<LiveCount>();
    int written[kThreads] = {};
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      count->Add();
      threads.emplace_back([&written, i, counted = count.get()] {
        counted->Add();
        counted->Remove();
        written[i] = 1;
        counted->Remove();
      });
    }
    count->WaitUntilNone();
    count.reset();
    for (const int each : written) EXPECT_EQ(each, 1);
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace qgemm
