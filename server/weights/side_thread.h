// SPDX-License-Identifier: Apache-2.0
//
// A thread beside another one, for the half of a job that the other need not
// wait for.

#ifndef QGEMM_SERVER_WEIGHTS_SIDE_THREAD_H_
#define QGEMM_SERVER_WEIGHTS_SIDE_THREAD_H_

#include <optional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "base/mutex.h"

namespace qgemm {

// Used by one thread at a time. The thread begins with the first job.
class SideThread {
 public:
  using Job = absl::AnyInvocable<absl::Status()>;

  SideThread() = default;
  SideThread(const SideThread&) = delete;
  SideThread& operator=(const SideThread&) = delete;
  ~SideThread() {
    {
      MutexLock lock(&mutex_);
      stopping_ = true;
    }
    changed_.SignalAll();
    if (thread_.joinable()) thread_.join();
  }

  // Begins the job; Join comes before the next one.
  void Begin(Job job) {
    {
      MutexLock lock(&mutex_);
      job_ = std::move(job);
      result_.reset();
    }
    changed_.SignalAll();
    if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  }

  // Waits for the job, and returns what it did.
  absl::Status Join() {
    MutexLock lock(&mutex_);
    while (!result_.has_value()) changed_.Wait(&mutex_);
    return *result_;
  }

 private:
  void Run() {
    while (true) {
      Job job;
      {
        MutexLock lock(&mutex_);
        while (!stopping_ && job_ == nullptr) changed_.Wait(&mutex_);
        if (job_ == nullptr) return;
        job = std::exchange(job_, nullptr);
      }
      const absl::Status result = job();
      {
        MutexLock lock(&mutex_);
        result_ = result;
      }
      changed_.SignalAll();
    }
  }

  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Job job_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> result_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_WEIGHTS_SIDE_THREAD_H_
