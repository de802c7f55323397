// SPDX-License-Identifier: Apache-2.0
//
// The task queue behind WorkerPool.

#include "base/worker_pool.h"

#include <utility>

namespace qgemm {

WorkerPool::WorkerPool(int threads) {
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this] { Run(); });
  }
}

WorkerPool::~WorkerPool() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  wake_.SignalAll();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::Submit(absl::AnyInvocable<void()> task) {
  {
    MutexLock lock(&mutex_);
    tasks_.push_back(std::move(task));
  }
  wake_.Signal();
}

int64_t WorkerPool::waiting() {
  MutexLock lock(&mutex_);
  return static_cast<int64_t>(tasks_.size());
}

void WorkerPool::Run() {
  while (true) {
    absl::AnyInvocable<void()> task;
    {
      MutexLock lock(&mutex_);
      while (tasks_.empty() && !stopping_) wake_.Wait(&mutex_);
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace qgemm
