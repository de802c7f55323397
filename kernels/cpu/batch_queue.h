// SPDX-License-Identifier: Apache-2.0
//
// Batches that wait for the CPU, first in first out.

#ifndef QGEMM_KERNELS_CPU_BATCH_QUEUE_H_
#define QGEMM_KERNELS_CPU_BATCH_QUEUE_H_

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "base/mutex.h"
#include "kernels/matrix/backend.h"

namespace qgemm {

struct QueuedBatch {
  GemmBatch batch;
  BatchCompletion completion;
  absl::Time enqueued;
};

// Thread-safe; one thread pops. Pushing allocates only when the queue is
// longer than it ever was.
class BatchQueue {
 public:
  void Push(QueuedBatch batch);

  // The next batch, waiting for one; nothing once the queue is closed and
  // empty.
  std::optional<QueuedBatch> Pop();

  // No pushes follow.
  void Close();

 private:
  void Grow() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  CondVar not_empty_;
  // A ring: `count_` batches from `first_` on.
  std::vector<QueuedBatch> ring_ ABSL_GUARDED_BY(mutex_);
  size_t first_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t count_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace qgemm

#endif  // QGEMM_KERNELS_CPU_BATCH_QUEUE_H_
