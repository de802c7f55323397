// SPDX-License-Identifier: Apache-2.0
//
// Waiting for calls to end, refusal while the server drains, and the calls
// that are told of it.

#include "server/rpc/call_registry.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "rpc/grpc_status.h"

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

struct FakeCall {};

TEST(CallRegistry, ListsWhatEnteredAndHasNotLeft) {
  LiveCalls live_calls;
  CallRegistry<FakeCall> registry(&live_calls);
  const auto first = std::make_shared<FakeCall>();
  const auto second = std::make_shared<FakeCall>();
  auto freed = std::make_shared<FakeCall>();
  EXPECT_TRUE(registry.Enter(first).ok());
  EXPECT_TRUE(registry.Enter(second).ok());
  EXPECT_TRUE(registry.Enter(freed).ok());
  registry.Leave(first.get());
  registry.Leave(first.get());
  freed.reset();
  const auto calls = registry.Calls();
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0], second);
}

TEST(CallRegistry, RefusesBeyondItsLimitByTheFlag) {
  LiveCalls live_calls;
  CallRegistry<FakeCall> registry(&live_calls, {1, "uploads", "--max_uploads"});
  const auto first = std::make_shared<FakeCall>();
  const auto second = std::make_shared<FakeCall>();
  EXPECT_TRUE(registry.Enter(first).ok());
  const absl::Status refused = registry.Enter(second);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.message(),
            "1 uploads are in progress and the limit is 1 (--max_uploads); "
            "try again later");
  EXPECT_GT(RetryDelayOf(refused), absl::ZeroDuration());
  registry.Leave(second.get());
  registry.Leave(first.get());
  EXPECT_TRUE(registry.Enter(second).ok());
}

TEST(CallRegistry, RefusesOneClientAndTakesAnother) {
  LiveCalls live_calls;
  CallRegistry<FakeCall> registry(&live_calls,
                                  {4, "uploads", "--max_uploads", 1});
  const auto first = std::make_shared<FakeCall>();
  const auto second = std::make_shared<FakeCall>();
  const auto other = std::make_shared<FakeCall>();
  EXPECT_TRUE(registry.Enter(first, "uid 7").ok());
  const absl::Status refused = registry.Enter(second, "uid 7");
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.message(),
            "1 uploads of uid 7 are in progress and the limit of one client "
            "is 1 (--max_uploads); try again later");
  EXPECT_GT(RetryDelayOf(refused), absl::ZeroDuration());
  EXPECT_TRUE(registry.Enter(other, "uid 8").ok());
  registry.Leave(second.get());  // it did not enter
  EXPECT_FALSE(registry.Enter(second, "uid 7").ok());
  registry.Leave(first.get());
  EXPECT_TRUE(registry.Enter(second, "uid 7").ok());
}

TEST(CallRegistry, RefusesWhileTheServerDrains) {
  LiveCalls live_calls;
  CallRegistry<FakeCall> registry(&live_calls);
  live_calls.BeginDrain();
  EXPECT_TRUE(
      absl::IsUnavailable(registry.Enter(std::make_shared<FakeCall>())));
  EXPECT_TRUE(registry.Calls().empty());
}

TEST(CallRegistry, AClientHasAsManyCallsAsItsQuota) {
  const LiveCalls live_calls;
  CallRegistry<int> registry(&live_calls, {10, "streams", "--max_streams", 5});
  const auto first = std::make_shared<int>();
  EXPECT_TRUE(registry.Enter(first, "a", 1).ok());
  const absl::Status refused = registry.Enter(std::make_shared<int>(), "a", 1);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(refused.message().find("1 streams of \"a\""), std::string::npos);
  EXPECT_TRUE(registry.Enter(std::make_shared<int>(), "b", 1).ok());
  EXPECT_TRUE(registry.Leave(first.get()));
  EXPECT_TRUE(registry.Enter(std::make_shared<int>(), "a", 1).ok());
}

}  // namespace
}  // namespace qgemm
