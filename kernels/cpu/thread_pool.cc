// SPDX-License-Identifier: Apache-2.0
//
// A loop is a counter that threads draw items from. Workers spin a moment
// for the next loop, then sleep.

#include "kernels/cpu/thread_pool.h"

#include <sched.h>

#include <algorithm>

namespace qgemm::cpu {
namespace {

// About 20 microseconds at 3 GHz: longer than the gap between two loops of a
// batch, shorter than a sleep and a wake-up.
constexpr int kSpins = 500;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

int AvailableProcessors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    return std::max(1, CPU_COUNT(&set));
  }
  return std::max(1u, std::thread::hardware_concurrency());
}

ThreadPool::ThreadPool(int threads) {
  for (int i = 1; i < threads; ++i) {
    workers_.emplace_back([this] { WorkerMain(); });
  }
}

ThreadPool::~ThreadPool() {
  {
    MutexLock lock(&mutex_);
    stopping_.store(true);
  }
  wake_.SignalAll();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::ParallelFor(int64_t count,
                             absl::FunctionRef<void(int64_t)> body) {
  const Loop loop{body, static_cast<uint64_t>(count), draws()};
  if (workers_.empty() || count <= 1) return RunItems(loop);
  loop_.store(&loop, std::memory_order_relaxed);
  joined_.store(0, std::memory_order_release);
  Wake();
  RunItems(loop);
  CloseLoop();
}

void ThreadPool::RunItems(const Loop& loop) {
  while (true) {
    const uint64_t item =
        draws_.fetch_add(1, std::memory_order_relaxed) - loop.first_draw;
    if (item >= loop.count) return;
    loop.body(static_cast<int64_t>(item));
  }
}

void ThreadPool::Wake() {
  {
    // Under the lock, so that no worker falls asleep between its look at the
    // generation and its wait.
    MutexLock lock(&mutex_);
    generation_.fetch_add(1, std::memory_order_relaxed);
  }
  wake_.SignalAll();
}

void ThreadPool::CloseLoop() {
  int spins = 0;
  int expected = 0;
  while (!joined_.compare_exchange_weak(expected, kClosed,
                                        std::memory_order_acquire)) {
    expected = 0;
    if (++spins < kSpins) {
      Pause();
    } else {
      std::this_thread::yield();
    }
  }
}

void ThreadPool::WorkerMain() {
  uint64_t seen = 0;
  while (AwaitLoop(seen)) JoinLoop();
}

bool ThreadPool::AwaitLoop(uint64_t& seen) {
  for (int spins = 0; spins < kSpins; ++spins) {
    if (generation_.load(std::memory_order_relaxed) != seen) break;
    Pause();
  }
  MutexLock lock(&mutex_);
  while (generation_.load(std::memory_order_relaxed) == seen) {
    if (stopping_.load()) return false;
    wake_.Wait(&mutex_);
  }
  seen = generation_.load(std::memory_order_relaxed);
  return !stopping_.load();
}

void ThreadPool::JoinLoop() {
  int joined = joined_.load(std::memory_order_relaxed);
  do {
    if (joined == kClosed) return;
  } while (!joined_.compare_exchange_weak(joined, joined + 1,
                                          std::memory_order_acquire,
                                          std::memory_order_relaxed));
  RunItems(*loop_.load(std::memory_order_relaxed));
  joined_.fetch_sub(1, std::memory_order_release);
}

}  // namespace qgemm::cpu
