// SPDX-License-Identifier: Apache-2.0

#include "server/weights/budget.h"

#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/metrics/metrics_text.h"

namespace qgemm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Optional;

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

std::shared_ptr<BudgetLedger> Ledger(int64_t limit_bytes) {
  return std::make_shared<BudgetLedger>(limit_bytes, nullptr);
}

TEST(BudgetTest, GrantsExactlyTheLimit) {
  const auto ledger = Ledger(100);
  const auto reservation = BudgetReservation::Take(ledger, 100);
  ASSERT_TRUE(reservation.ok()) << reservation.status();
  EXPECT_EQ(ledger->held_bytes(), 100);
}

TEST(BudgetTest, RefusalNamesAskedHeldAndLimit) {
  const auto ledger = Ledger(100);
  const auto first = BudgetReservation::Take(ledger, 60);
  const auto second = BudgetReservation::Take(ledger, 41);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(second.status().message(),
              AllOf(HasSubstr("41"), HasSubstr("60"), HasSubstr("100")));
}

TEST(BudgetTest, RefusedRequestTakesNothing) {
  const auto ledger = Ledger(100);
  EXPECT_FALSE(BudgetReservation::Take(ledger, 101).ok());
  EXPECT_EQ(ledger->held_bytes(), 0);
}

TEST(BudgetTest, SumThatOverflowsIsRefused) {
  const auto ledger = Ledger(100);
  const auto first = BudgetReservation::Take(ledger, 1);
  EXPECT_EQ(BudgetReservation::Take(ledger, kHuge).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(BudgetTest, SumThatOverflowsIsRefusedWithoutALimitToo) {
  const auto ledger = Ledger(0);
  const auto first = BudgetReservation::Take(ledger, kHuge);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(BudgetReservation::Take(ledger, 1).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(BudgetTest, DestroyedReservationGivesBack) {
  const auto ledger = Ledger(100);
  { const auto reservation = BudgetReservation::Take(ledger, 100); }
  EXPECT_EQ(ledger->held_bytes(), 0);
}

TEST(BudgetTest, MovedReservationGivesBackOnce) {
  const auto ledger = Ledger(100);
  const auto other = BudgetReservation::Take(ledger, 30);
  {
    auto first = BudgetReservation::Take(ledger, 50);
    ASSERT_TRUE(first.ok()) << first.status();
    BudgetReservation second = *std::move(first);
    BudgetReservation third;
    third = std::move(second);
    EXPECT_EQ(third.bytes(), 50);
    EXPECT_EQ(ledger->held_bytes(), 80);
  }
  EXPECT_EQ(ledger->held_bytes(), 30);
}

TEST(BudgetTest, MetricFollowsWhatIsHeld) {
  ServerMetrics metrics;
  const auto ledger = std::make_shared<BudgetLedger>(100, &metrics);
  {
    const auto reservation = BudgetReservation::Take(ledger, 70);
    EXPECT_THAT(MetricValue(metrics, "qgemm_weights_bytes"), Optional(70.0));
  }
  EXPECT_THAT(MetricValue(metrics, "qgemm_weights_bytes"), Optional(0.0));
}

TEST(BudgetTest, NeverHoldsMoreThanTheLimitUnderConcurrency) {
  const auto ledger = Ledger(100);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&ledger] {
      for (int i = 0; i < 500; ++i) {
        const auto reservation = BudgetReservation::Take(ledger, 40);
        EXPECT_LE(ledger->held_bytes(), 100);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ledger->held_bytes(), 0);
}

}  // namespace
}  // namespace qgemm
