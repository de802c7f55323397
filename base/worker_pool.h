// SPDX-License-Identifier: Apache-2.0
//
// Threads for work that must not hold up the thread that found it.

#ifndef QGEMM_BASE_WORKER_POOL_H_
#define QGEMM_BASE_WORKER_POOL_H_

#include <cstdint>
#include <deque>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "base/mutex.h"

namespace qgemm {

// Runs tasks in the order in which they came, on `threads` threads. The
// destructor runs what is queued, then joins. Thread-safe.
class WorkerPool {
 public:
  explicit WorkerPool(int threads);
  ~WorkerPool();

  void Submit(absl::AnyInvocable<void()> task);

  // Tasks that no thread has begun with.
  int64_t waiting();

  // Returns when no task is queued or running. Not for a task.
  void WaitUntilIdle();

 private:
  void Run();

  Mutex mutex_;
  CondVar wake_;
  CondVar idle_;
  std::deque<absl::AnyInvocable<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  int64_t running_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace qgemm

#endif  // QGEMM_BASE_WORKER_POOL_H_
