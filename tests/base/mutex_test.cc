// SPDX-License-Identifier: Apache-2.0
//
// Mutual exclusion, and waits that end by a signal or by their timeout.

#include "base/mutex.h"

#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

// A flag that one thread raises and another awaits.
class Flag {
 public:
  void Raise() {
    MutexLock lock(&mutex_);
    raised_ = true;
    condition_.SignalAll();
  }

  void Await() {
    MutexLock lock(&mutex_);
    while (!raised_) condition_.Wait(&mutex_);
  }

  // True if no wait ended by its timeout.
  bool AwaitFor(absl::Duration timeout) {
    MutexLock lock(&mutex_);
    while (!raised_) {
      if (!condition_.WaitFor(&mutex_, timeout)) return raised_;
    }
    return true;
  }

 private:
  Mutex mutex_;
  CondVar condition_;
  bool raised_ ABSL_GUARDED_BY(mutex_) = false;
};

TEST(MutexTest, ExcludesOtherThreads) {
  constexpr int kThreads = 4;
  constexpr int kIncrements = 20000;
  Mutex mutex;
  int counter = 0;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int increment = 0; increment < kIncrements; ++increment) {
        MutexLock lock(&mutex);
        counter = counter + 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter, kThreads * kIncrements);
}

TEST(CondVarTest, SignalWakesAWaiter) {
  Flag flag;
  std::thread raiser([&flag] { flag.Raise(); });
  flag.Await();
  raiser.join();
}

TEST(CondVarTest, SignalAllWakesEveryWaiter) {
  Flag flag;
  constexpr int kWaiters = 4;
  std::vector<std::thread> waiters;
  waiters.reserve(kWaiters);
  for (int i = 0; i < kWaiters; ++i) {
    waiters.emplace_back([&flag] { flag.Await(); });
  }
  flag.Raise();
  for (std::thread& waiter : waiters) waiter.join();
}

TEST(CondVarTest, HandsTheMutexBackLocked) {
  Mutex mutex;
  CondVar condition;
  int turn = 0;
  std::thread other([&] {
    MutexLock lock(&mutex);
    while (turn != 1) condition.Wait(&mutex);
    turn = 2;
    condition.Signal();
  });
  mutex.Lock();
  turn = 1;
  condition.Signal();
  while (turn != 2) condition.Wait(&mutex);
  mutex.Unlock();
  other.join();
  EXPECT_EQ(turn, 2);
}

TEST(CondVarTest, TimeoutWithoutSignalIsReported) {
  for (const absl::Duration timeout :
       {absl::Microseconds(1), absl::ZeroDuration(), -absl::Seconds(1),
        -absl::InfiniteDuration()}) {
    EXPECT_FALSE(Flag().AwaitFor(timeout)) << timeout;
  }
}

TEST(CondVarTest, InfiniteTimeoutWaitsForTheSignal) {
  Flag waiting;
  Flag raised;
  bool signalled = false;
  std::thread waiter([&] {
    waiting.Raise();
    signalled = raised.AwaitFor(absl::InfiniteDuration());
  });
  waiting.Await();
  raised.Raise();
  waiter.join();
  EXPECT_TRUE(signalled);
}

}  // namespace
}  // namespace qgemm
