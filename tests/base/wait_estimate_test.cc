// SPDX-License-Identifier: Apache-2.0

#include "base/wait_estimate.h"

#include <algorithm>
#include <random>

#include "gtest/gtest.h"

namespace qgemm {
namespace {

absl::Duration Micros(double count) { return absl::Microseconds(count); }

// A thread that awakes `late` waits for a batch of that length.
ObservedWait Wait(const WaitEstimate& estimate, absl::Duration length,
                  absl::Duration late) {
  ObservedWait wait;
  wait.slept_until = estimate.sleep_until();
  if (wait.slept_until > absl::ZeroDuration()) {
    wait.awake = wait.slept_until + late;
    wait.ended_asleep = wait.awake > length;
  }
  wait.ended = std::max(wait.awake, length);
  return wait;
}

TEST(WaitEstimateTest, DoesNotSleepBeforeItHasSeenABatch) {
  EXPECT_EQ(WaitEstimate().sleep_until(), absl::ZeroDuration());
}

TEST(WaitEstimateTest, SleepsMostOfALongBatch) {
  WaitEstimate estimate;
  for (int i = 0; i < 50; ++i) {
    const ObservedWait wait = Wait(estimate, Micros(90), Micros(3));
    EXPECT_FALSE(wait.ended_asleep) << i;
    estimate.Observe(wait);
  }
  EXPECT_GT(estimate.sleep_until(), Micros(75));
}

TEST(WaitEstimateTest, FewSleepsOutlastBatchesOfUnevenLength) {
  WaitEstimate estimate;
  std::minstd_rand random(1);
  int asleep = 0;
  absl::Duration spun;
  constexpr int kBatches = 20000;
  for (int i = 0; i < kBatches; ++i) {
    const auto length = Micros(std::normal_distribution<>(90, 5)(random));
    const auto late = Micros(std::uniform_real_distribution<>(1, 6)(random));
    const ObservedWait wait = Wait(estimate, length, late);
    asleep += wait.ended_asleep ? 1 : 0;
    spun += wait.ended - wait.awake;
    estimate.Observe(wait);
  }
  EXPECT_LT(asleep, kBatches / 5);
  EXPECT_LT(spun, kBatches * Micros(10));
}

TEST(WaitEstimateTest, DoesNotSleepThroughAShortBatch) {
  WaitEstimate estimate;
  for (int i = 0; i < 50; ++i) {
    estimate.Observe(Wait(estimate, Micros(25), Micros(3)));
    EXPECT_EQ(estimate.sleep_until(), absl::ZeroDuration());
  }
}

TEST(WaitEstimateTest, SleepsLessWhereThreadsAwakeLate) {
  WaitEstimate estimate;
  estimate.Observe(Wait(estimate, Micros(90), Micros(0)));
  estimate.Observe(Wait(estimate, Micros(90), Micros(60)));
  EXPECT_LE(estimate.sleep_until(), Micros(90 - 60));
}

TEST(WaitEstimateTest, TriesAgainAfterAThreadAwokeVeryLate) {
  WaitEstimate estimate;
  estimate.Observe(Wait(estimate, Micros(90), Micros(0)));
  estimate.Observe(Wait(estimate, Micros(90), Micros(2000)));
  int spun = 0;
  while (estimate.sleep_until() == absl::ZeroDuration() && spun < 5000) {
    estimate.Observe(Wait(estimate, Micros(90), Micros(0)));
    ++spun;
  }
  EXPECT_GT(spun, 100);
  EXPECT_LT(spun, 1000);
}

TEST(WaitEstimateTest, BatchesThatWaitedForOthersDoNotLengthenItsSleep) {
  WaitEstimate estimate;
  for (int i = 0; i < 100; ++i) {
    estimate.Observe(Wait(estimate, Micros(i % 2 == 0 ? 90 : 200), Micros(2)));
    EXPECT_LT(estimate.sleep_until(), Micros(90)) << i;
  }
}

TEST(WaitEstimateTest, FollowsBatchesThatBecomeShorter) {
  WaitEstimate estimate;
  for (int i = 0; i < 20; ++i) {
    estimate.Observe(Wait(estimate, Micros(150), Micros(2)));
  }
  int asleep = 0;
  for (int i = 0; i < 30; ++i) {
    const ObservedWait wait = Wait(estimate, Micros(80), Micros(2));
    asleep += wait.ended_asleep ? 1 : 0;
    estimate.Observe(wait);
  }
  EXPECT_LT(asleep, 15);
  EXPECT_LT(estimate.sleep_until(), Micros(80));
}

}  // namespace
}  // namespace qgemm
