// SPDX-License-Identifier: Apache-2.0
//
// Reservations count, and their bytes come back whoever goes first.

#include "base/byte_budget.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

ByteBudgetOptions Limited(int64_t limit_bytes) {
  ByteBudgetOptions options;
  options.name = "test budget";
  options.limit_bytes = limit_bytes;
  return options;
}

struct Case {
  int64_t limit_bytes;
  int64_t held_bytes;
  int64_t asked_bytes;
  bool granted;
};

TEST(ByteBudgetTest, GrantsUpToItsLimitWithoutOverflow) {
  const Case cases[] = {
      {0, 0, 0, true},           {0, 0, 1, false},
      {10, 6, 4, true},          {10, 6, 5, false},
      {10, 10, 0, true},         {10, 6, kMax, false},
      {kMax, 6, kMax - 6, true}, {kMax, 6, kMax - 5, false},
  };
  for (const Case& c : cases) {
    ByteBudget budget(Limited(c.limit_bytes));
    const auto held = budget.Reserve(c.held_bytes);
    ASSERT_TRUE(held.ok()) << held.status();
    const auto asked = budget.Reserve(c.asked_bytes);
    EXPECT_EQ(asked.ok(), c.granted)
        << c.asked_bytes << " of " << c.limit_bytes;
    EXPECT_EQ(budget.used_bytes(),
              c.held_bytes + (c.granted ? c.asked_bytes : 0));
  }
}

TEST(ByteBudgetTest, RefusalNamesTheNumbersAndTheAdvice) {
  ByteBudgetOptions options = Limited(10);
  options.advice = "raise --flag";
  ByteBudget budget(options);
  const auto held = budget.Reserve(6);
  const absl::Status refused = budget.Reserve(5).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.message(),
            "test budget: 5 bytes asked for, 6 in use, the limit is 10; "
            "raise --flag");
}

TEST(ByteReservationTest, GivesBackOnceAfterMoves) {
  ByteBudget budget(Limited(10));
  {
    ByteReservation first = *budget.Reserve(7);
    ByteReservation second = std::move(first);
    ByteReservation third = *budget.Reserve(3);
    EXPECT_EQ(budget.used_bytes(), 10);
    third = std::move(second);  // gives its own 3 bytes back
    EXPECT_EQ(third.bytes(), 7);
    EXPECT_EQ(budget.used_bytes(), 7);
    third.Release();
    EXPECT_EQ(third.bytes(), 0);
    EXPECT_EQ(budget.used_bytes(), 0);
  }
  EXPECT_EQ(budget.used_bytes(), 0);
}

TEST(ByteReservationTest, GrowsAndShrinks) {
  ByteBudget budget(Limited(10));
  ByteReservation reservation = *budget.Reserve(4);
  EXPECT_TRUE(reservation.Resize(10).ok());
  EXPECT_FALSE(reservation.Resize(11).ok());
  EXPECT_EQ(reservation.bytes(), 10);
  EXPECT_TRUE(reservation.Resize(1).ok());
  EXPECT_EQ(budget.used_bytes(), 1);
}

TEST(ByteReservationTest, MayOutliveItsBudget) {
  std::vector<int64_t> used;
  ByteReservation reservation;
  {
    ByteBudgetOptions options = Limited(10);
    options.on_change = [&](int64_t bytes) { used.push_back(bytes); };
    ByteBudget budget(std::move(options));
    reservation = *budget.Reserve(4);
  }
  reservation = ByteReservation();
  EXPECT_THAT(used, ElementsAre(4, 0));
}

TEST(ByteBudgetTest, CountsForManyThreads) {
  ByteBudget budget(Limited(1000));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 1; i <= 200; ++i) {
        const auto reservation = budget.Reserve(i);
        if (reservation.ok()) {
          EXPECT_GE(budget.used_bytes(), i);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(budget.used_bytes(), 0);
}

}  // namespace
}  // namespace qgemm
