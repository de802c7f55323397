// SPDX-License-Identifier: Apache-2.0
//
// Interface to run tasks on another thread: a pool of threads, an event loop.

#ifndef QGEMM_BASE_TASK_RUNNER_H_
#define QGEMM_BASE_TASK_RUNNER_H_

#include "absl/functional/any_invocable.h"

namespace qgemm {

// Thread-safe.
class TaskRunner {
 public:
  virtual ~TaskRunner() = default;

  // Runs `task` once, soon, on a thread of the runner's and never within
  // Submit. Tasks begin in the order in which they were submitted.
  virtual void Submit(absl::AnyInvocable<void()> task) = 0;
};

}  // namespace qgemm

#endif  // QGEMM_BASE_TASK_RUNNER_H_
