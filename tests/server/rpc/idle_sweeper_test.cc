// SPDX-License-Identifier: Apache-2.0
//
// The judgement of a transfer by its count, and the round over a queue's calls.

#include "server/rpc/idle_sweeper.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "base/live_count.h"
#include "tests/support/fake_clock.h"

namespace qgemm {
namespace {

class ProgressWatchTest : public testing::Test {
 protected:
  Progress LookAfter(absl::Duration pause, int64_t count) {
    now_ += pause;
    return watch_.Look(count, {absl::Seconds(30), 1000}, now_);
  }

  absl::Time now_ = absl::FromUnixSeconds(1'700'000'000);
  ProgressWatch watch_;
};

TEST_F(ProgressWatchTest, WithoutARateAnyProgressWillDo) {
  const ProgressLimits limits = {absl::Seconds(30), 0};
  EXPECT_EQ(watch_.Look(0, limits, now_), Progress::kFine);
  for (int64_t count = 1; count < 20; ++count) {
    now_ += absl::Seconds(29);
    EXPECT_EQ(watch_.Look(count, limits, now_), Progress::kFine);
  }
  now_ += absl::Seconds(29);
  EXPECT_EQ(watch_.Look(19, limits, now_), Progress::kFine);
  EXPECT_EQ(watch_.idle(), absl::Seconds(29));
  now_ += absl::Seconds(1);
  EXPECT_EQ(watch_.Look(19, limits, now_), Progress::kIdle);
}

TEST_F(ProgressWatchTest, IsSlowByTheRateOfAWindow) {
  EXPECT_EQ(LookAfter(absl::Seconds(0), 5000), Progress::kFine);
  EXPECT_EQ(LookAfter(absl::Seconds(9), 5001), Progress::kFine);
  EXPECT_EQ(LookAfter(absl::Seconds(1), 15'000), Progress::kFine);
  EXPECT_EQ(LookAfter(absl::Seconds(9), 15'001), Progress::kFine);
  EXPECT_EQ(LookAfter(absl::Seconds(1), 24'999), Progress::kSlow);
}

TEST_F(ProgressWatchTest, AResetForgivesThePause) {
  EXPECT_EQ(LookAfter(absl::Seconds(0), 0), Progress::kFine);
  watch_.Reset();
  EXPECT_EQ(LookAfter(absl::Hours(1), 0), Progress::kFine);
  EXPECT_EQ(LookAfter(absl::Seconds(30), 0), Progress::kIdle);
}

// Counts its rounds, and the last one's time.
class CountingCall final : public SweptCall {
 public:
  void Sweep(const SweepRound& round) override {
    ++rounds;
    now = round.now;
  }

  int rounds = 0;
  absl::Time now;
};

class IdleSweeperTest : public testing::Test {
 protected:
  IdleSweeperTest() { queue_.Start(); }
  ~IdleSweeperTest() override { queue_.ShutDown(); }

  // Runs the task on the queue's thread, behind all submitted before.
  void OnQueue(absl::AnyInvocable<void()> task) {
    LiveCount pending;
    pending.Add();
    queue_.Submit([&] {
      task();
      pending.Remove();
    });
    pending.WaitUntilNone();
  }
  void Link(SweptCall* call) {
    OnQueue([this, call] { queue_.Link(call); });
  }
  void Unlink(SweptCall* call) {
    OnQueue([this, call] { queue_.Unlink(call); });
  }
  void SweepOnce() {
    sweeper_.Sweep(&queue_);
    OnQueue([] {});
  }

  FakeClock clock_;
  ServerMetrics metrics_;
  CompletionQueue queue_;
  IdleSweeper sweeper_{ProgressLimits(), &clock_, &metrics_};
};

TEST_F(IdleSweeperTest, LooksAtEveryLinkedCallAtTheClocksTime) {
  std::vector<CountingCall> calls(3);
  for (CountingCall& call : calls) Link(&call);
  clock_.Advance(absl::Seconds(5));
  SweepOnce();
  for (const CountingCall& call : calls) {
    EXPECT_EQ(call.rounds, 1);
    EXPECT_EQ(call.now, clock_.Now());
  }
  for (CountingCall& call : calls) Unlink(&call);
}

TEST_F(IdleSweeperTest, NeverLooksAtACallThatWasUnlinked) {
  std::vector<CountingCall> calls(4);
  for (CountingCall& call : calls) Link(&call);
  for (const int index : {1, 3, 0, 2}) {  // inner, first, last, only
    Unlink(&calls[index]);
    SweepOnce();
  }
  SweepOnce();
  EXPECT_EQ(calls[1].rounds, 0);
  EXPECT_EQ(calls[3].rounds, 1);
  EXPECT_EQ(calls[0].rounds, 2);
  EXPECT_EQ(calls[2].rounds, 3);
}

// Counts rounds where any thread can see them.
class ObservedCall final : public SweptCall {
 public:
  void Sweep(const SweepRound&) override { ++rounds; }
  std::atomic<int> rounds{0};
};

TEST_F(IdleSweeperTest, LooksAgainAndAgainUntilItStops) {
  IdleSweeper sweeper({absl::Milliseconds(4), 0}, &clock_, &metrics_);
  ObservedCall call;
  Link(&call);
  sweeper.Start({&queue_});
  while (call.rounds < 3) std::this_thread::yield();
  sweeper.Stop();
  OnQueue([] {});
  const int rounds = call.rounds;
  OnQueue([] {});
  EXPECT_EQ(call.rounds, rounds);
  Unlink(&call);
}

}  // namespace
}  // namespace qgemm
