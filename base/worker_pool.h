// SPDX-License-Identifier: Apache-2.0
//
// Threads for work that must not hold up the thread that found it.

#ifndef QGEMM_BASE_WORKER_POOL_H_
#define QGEMM_BASE_WORKER_POOL_H_

#include <cstdint>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "base/fifo_queue.h"
#include "base/task_runner.h"

namespace qgemm {

// Runs tasks in the order of Submit, on `threads` threads. The destructor runs
// all that are queued, then joins. Thread-safe.
class WorkerPool final : public TaskRunner {
 public:
  explicit WorkerPool(int threads);
  ~WorkerPool() override;

  void Submit(absl::AnyInvocable<void()> task) override;

  // The number of tasks that no thread has begun.
  int64_t waiting() const { return tasks_.size(); }

 private:
  void Run();

  FifoQueue<absl::AnyInvocable<void()>> tasks_;
  std::vector<std::thread> threads_;
};

}  // namespace qgemm

#endif  // QGEMM_BASE_WORKER_POOL_H_
