// SPDX-License-Identifier: Apache-2.0
//
// Threads that share the items of one loop at a time with its caller.

#ifndef QGEMM_KERNELS_CPU_THREAD_POOL_H_
#define QGEMM_KERNELS_CPU_THREAD_POOL_H_

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/mutex.h"

namespace qgemm::cpu {

// Processors that this process may run on.
int AvailableProcessors();

// ParallelFor comes from one thread at a time; it neither allocates nor waits
// for a worker that has not joined in.
class ThreadPool {
 public:
  // Loops run on `threads` threads, the caller's included.
  explicit ThreadPool(int threads);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Runs body(i) once for each i in [0, count), in any order and on any of
  // the threads, and returns when all have run.
  void ParallelFor(int64_t count, absl::FunctionRef<void(int64_t)> body);

  // Items drawn in all loops: grows with each item that a thread begins, and
  // once more when it finds none left. Thread-safe.
  uint64_t draws() const { return draws_.load(std::memory_order_relaxed); }

 private:
  struct Loop {
    absl::FunctionRef<void(int64_t)> body;
    const uint64_t count;
    const uint64_t first_draw;
  };

  // Value of joined_ while no loop is open.
  static constexpr int kClosed = -1;

  void RunItems(const Loop& loop);
  void WorkerMain();
  // Waits for a loop later than `seen`; false if the pool stops.
  bool AwaitLoop(uint64_t& seen);
  void JoinLoop();
  void Wake();
  void CloseLoop();

  // The item of a draw is its distance from the loop's first. Only threads
  // inside a loop draw.
  std::atomic<uint64_t> draws_{0};
  // Workers inside the open loop, or kClosed. A worker that raised it may
  // read loop_ until it lowers it.
  std::atomic<int> joined_{kClosed};
  std::atomic<const Loop*> loop_{nullptr};
  std::atomic<uint64_t> generation_{0};
  std::atomic<bool> stopping_{false};
  Mutex mutex_;
  CondVar wake_;
  std::vector<std::thread> workers_;
};

}  // namespace qgemm::cpu

#endif  // QGEMM_KERNELS_CPU_THREAD_POOL_H_
