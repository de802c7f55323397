// SPDX-License-Identifier: Apache-2.0
//
// Waiting for calls to end, and refusal while the server drains.

#include "server/rpc/live_calls.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace qgemm {
namespace {

TEST(LiveCalls, ServesUntilItDrains) {
  LiveCalls calls;
  EXPECT_TRUE(calls.CheckServing().ok());
  calls.BeginDrain();
  EXPECT_EQ(calls.CheckServing().code(), absl::StatusCode::kUnavailable);
}

TEST(LiveCalls, DoesNotWaitForNothing) {
  LiveCalls calls;
  { const LiveCalls::Token token(&calls); }
  calls.WaitUntilNone();
}

TEST(LiveCalls, WaitsForTheLastToken) {
  constexpr int kThreads = 4;
  LiveCalls calls;
  std::atomic<int> ended{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back(
        [&ended, token = std::make_unique<LiveCalls::Token>(&calls)]() mutable {
          ++ended;
          token.reset();
        });
  }
  calls.WaitUntilNone();
  EXPECT_EQ(ended, kThreads);
  for (std::thread& thread : threads) thread.join();
}

TEST(LiveCalls, RefusesAtOnceUnlessItHolds) {
  LiveCalls calls;
  bool refused = false;
  calls.Refuse([&] { refused = true; });
  EXPECT_TRUE(refused);
}

TEST(LiveCalls, HoldsRefusalsUntilTheyAreReleased) {
  LiveCalls calls;
  calls.HoldRefusals(absl::ZeroDuration(), absl::ZeroDuration());
  int refused = 0;
  calls.Refuse([&] { ++refused; });
  calls.Refuse([&] { ++refused; });
  EXPECT_EQ(refused, 0);
  calls.ReleaseRefusals();
  EXPECT_EQ(refused, 2);
  calls.Refuse([&] { ++refused; });
  EXPECT_EQ(refused, 3);
}

}  // namespace
}  // namespace qgemm
