// SPDX-License-Identifier: Apache-2.0

#include "server/metrics/traffic.h"

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> Values(const TrafficTable& table) {
  std::vector<std::string> values;
  for (const auto& entry : table.Entries()) values.push_back(entry.value);
  return values;
}

TEST(TrafficTableTest, AValueHasOneSetOfCounts) {
  TrafficTable table(2);
  EXPECT_EQ(table.Get("a"), table.Get("a"));
  EXPECT_NE(table.Get("a"), table.Get("b"));
  EXPECT_THAT(Values(table), ElementsAre("a", "b", "other"));
}

TEST(TrafficTableTest, ValuesBeyondTheBoundShareOther) {
  TrafficTable table(2);
  const auto a = table.Get("a");
  const auto b = table.Get("b");
  EXPECT_EQ(table.Get("c"), table.Get("other"));
  EXPECT_EQ(table.Get("d"), table.Get("other"));
  EXPECT_EQ(table.Get("a"), a);
  EXPECT_THAT(Values(table), ElementsAre("a", "b", "other"));
}

TEST(TrafficTableTest, TheValueAskedForLongestAgoLosesItsPlace) {
  TrafficTable table(3);
  const auto held = table.Get("held");
  table.Get("a")->RequestComputed(1);
  table.Get("b")->RequestComputed(1);
  table.Get("a")->RequestComputed(1);
  table.Get("c");
  EXPECT_THAT(Values(table), ElementsAre("a", "c", "held", "other"));
  EXPECT_EQ(table.Get("a")->requests(), 2);
}

TEST(TrafficTableTest, AValueCalledOtherIsNoSecondSeries) {
  TrafficTable table(2);
  table.Get("other")->RequestComputed(1);
  EXPECT_THAT(Values(table), ElementsAre("other"));
}

TEST(TrafficTableTest, CountsOutliveTheTable) {
  auto table = std::make_unique<TrafficTable>(1);
  const auto kept = table->Get("a");
  table.reset();
  kept->RequestComputed(2);
  EXPECT_EQ(kept->rows(), 2);
}

TEST(TrafficTableTest, LosesNoCountUnderConcurrency) {
  constexpr int kThreads = 4;
  constexpr int kCalls = 500;
  TrafficTable table(1);
  const auto held = table.Get("a");
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&table] {
      for (int i = 0; i < kCalls; ++i) {
        table.Get("a")->RequestComputed(2);
        table.Get("b")->RequestDropped();
        table.Entries();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(held->rows(), 2 * kThreads * kCalls);
  EXPECT_EQ(table.Get("other")->dropped(), kThreads * kCalls);
}

}  // namespace
}  // namespace qgemm
