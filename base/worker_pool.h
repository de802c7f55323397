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
#include "base/task_runner.h"

namespace qgemm {

// Runs tasks in the order in which they came, on `threads` threads. The
// destructor runs what is queued, then joins. Thread-safe.
class WorkerPool final : public TaskRunner {
 public:
  explicit WorkerPool(int threads);
  ~WorkerPool() override;

  void Submit(absl::AnyInvocable<void()> task) override;

  // Tasks that no thread has begun with.
  int64_t waiting();

 private:
  void Run();

  Mutex mutex_;
  CondVar wake_;
  std::deque<absl::AnyInvocable<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace qgemm

#endif  // QGEMM_BASE_WORKER_POOL_H_
