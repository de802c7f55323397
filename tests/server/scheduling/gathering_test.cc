// SPDX-License-Identifier: Apache-2.0

#include "server/scheduling/gathering.h"

#include <cstdint>

#include "gtest/gtest.h"
#include "server/scheduling/fair_queue.h"

namespace qgemm {
namespace {

constexpr absl::Duration kLaunch = absl::Microseconds(800);
constexpr absl::Duration kSoon = absl::Microseconds(50);
constexpr absl::Duration kLate = absl::Microseconds(250);

// Launches of 16 requests, each of which is followed by another.
class GatheringTest : public testing::Test {
 protected:
  void Begin(int64_t requests = 16) {
    gathering_.Began(queue_, requests, now_);
  }
  void End() { gathering_.Ended(now_); }
  void Arrive(int64_t requests, absl::Duration later) {
    for (int64_t i = 0; i < requests; ++i) {
      gathering_.Arrived(queue_, now_ + later);
    }
  }
  // Runs a launch alone, after whose end so many requests come.
  void Run(int64_t comes, absl::Duration later) {
    Begin();
    now_ += kLaunch;
    End();
    Arrive(comes, later);
  }
  bool waits() const { return gathering_.WaitsUntil(queue_) > now_; }

  QueuePools pools_;
  FairQueue one_{QueueKey(), &pools_};
  FairQueue other_{QueueKey(), &pools_};
  const FairQueue* queue_ = &one_;
  absl::Time now_ = absl::FromUnixSeconds(1'700'000'000);
  Gathering gathering_;
};

TEST_F(GatheringTest, WaitsForAsManyAsTheLastLaunchHad) {
  Run(16, kSoon);
  Run(15, kSoon);
  EXPECT_TRUE(waits());
  Arrive(1, kSoon);
  EXPECT_FALSE(waits());
}

TEST_F(GatheringTest, WaitsAQuarterOfTheLaunchesTimeAtMost) {
  Run(16, kSoon);
  Run(15, kSoon);
  EXPECT_EQ(gathering_.WaitsUntil(queue_), now_ + kLaunch / 4);
}

TEST_F(GatheringTest, DoesNotWaitBeforeAnybodyHasComeBack) {
  Run(15, kSoon);
  EXPECT_FALSE(waits());
}

TEST_F(GatheringTest, DoesNotWaitForThoseWhoCameLateLastTime) {
  Run(16, kLate);
  Run(15, kSoon);
  EXPECT_FALSE(waits());
  Run(15, kSoon);
  EXPECT_TRUE(waits());
}

TEST_F(GatheringTest, DoesNotWaitWhereFewCameBack) {
  Run(11, kSoon);
  Run(11, kSoon);
  EXPECT_FALSE(waits());
}

TEST_F(GatheringTest, DoesNotWaitForTwoRequests) {
  for (int i = 0; i < 2; ++i) {
    Begin(2);
    now_ += kLaunch;
    End();
    Arrive(i == 0 ? 2 : 1, kSoon);
  }
  EXPECT_FALSE(waits());
}

TEST_F(GatheringTest, DoesNotWaitForAnotherQueue) {
  Run(16, kSoon);
  Run(15, kSoon);
  queue_ = &other_;
  EXPECT_FALSE(waits());
  Run(15, kSoon);
  EXPECT_FALSE(waits());
}

TEST_F(GatheringTest, DoesNotWaitAfterShortLaunches) {
  for (int i = 0; i < 2; ++i) {
    Begin();
    now_ += absl::Microseconds(100);
    End();
    Arrive(15, absl::ZeroDuration());
  }
  EXPECT_FALSE(waits());
}

// Two halves of the clients by turns: the second one's launch stands behind the
// first one's.
TEST_F(GatheringTest, WaitsForTheEndOfALaunchInFlight) {
  Begin();
  now_ += kLaunch / 2;
  Begin();
  now_ += kLaunch / 2;
  End();
  Arrive(16, kSoon);
  EXPECT_FALSE(waits());
  Begin();
  now_ += kLaunch;
  End();
  EXPECT_EQ(gathering_.WaitsUntil(queue_), absl::InfiniteFuture());
  Arrive(16, kSoon);
  EXPECT_EQ(gathering_.WaitsUntil(queue_), absl::InfiniteFuture());
  now_ += kLaunch;
  End();
  EXPECT_EQ(gathering_.WaitsUntil(queue_), now_ + kLaunch / 4);
}

}  // namespace
}  // namespace qgemm
