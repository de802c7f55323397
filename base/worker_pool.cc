// SPDX-License-Identifier: Apache-2.0
//
// The threads of WorkerPool.

#include "base/worker_pool.h"

#include <optional>
#include <utility>

namespace qgemm {

WorkerPool::WorkerPool(int threads) {
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this] { Run(); });
  }
}

WorkerPool::~WorkerPool() {
  tasks_.Close();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::Submit(absl::AnyInvocable<void()> task) {
  tasks_.Push(std::move(task));
}

void WorkerPool::Run() {
  while (std::optional<absl::AnyInvocable<void()>> task = tasks_.Pop()) {
    (*task)();
  }
}

}  // namespace qgemm
