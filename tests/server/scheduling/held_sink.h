// SPDX-License-Identifier: Apache-2.0
//
// Batch sink that keeps its batches until the test ends them.

#ifndef QGEMM_TESTS_SERVER_SCHEDULING_HELD_SINK_H_
#define QGEMM_TESTS_SERVER_SCHEDULING_HELD_SINK_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "server/scheduling/batch_scheduler.h"

namespace qgemm {

// Thread-safe.
class HeldSink final : public BatchSink {
 public:
  void Submit(ClosedBatch batch, Finished finished) override {
    MutexLock lock(&mutex_);
    sizes_.push_back(static_cast<int64_t>(batch.requests.size()));
    hints_.push_back(batch.hint);
    for (const ScheduledRequest& request : batch.requests) {
      rows_.push_back(request.request->m);
      ranges_.push_back(request.state.in_launch);
    }
    held_.push_back({std::move(batch), std::move(finished)});
    ++in_flight_;
    most_in_flight_ = std::max(most_in_flight_, in_flight_);
    changed_.SignalAll();
  }

  // Blocks until `count` batches have come in all.
  void WaitForBatches(int64_t count) {
    MutexLock lock(&mutex_);
    while (static_cast<int64_t>(sizes_.size()) < count) {
      changed_.Wait(&mutex_);
    }
  }

  // Ends the held batch `index` of those that are held, 0 the oldest, on the
  // caller's thread. False if nothing is held.
  bool Finish(uint64_t index, const absl::Status& status = {}) {
    Held held;
    {
      MutexLock lock(&mutex_);
      if (held_.empty()) return false;
      const auto position = held_.begin() + index % held_.size();
      held = std::move(*position);
      held_.erase(position);
      // Before `finished`, which lets the next batch come.
      --in_flight_;
    }
    std::optional<ScheduledRequest> unfinished;
    for (ScheduledRequest& scheduled : held.batch.requests) {
      RowRange& range = scheduled.state.in_launch;
      range = {range.first + range.count, 0};
      if (status.ok() && scheduled.rows_left() > 0) {
        unfinished = std::move(scheduled);
      } else {
        Complete(std::move(scheduled), status);
      }
    }
    held.finished(std::move(unfinished));
    return true;
  }

  // Requests of every batch, and rows of every request, in order of coming.
  std::vector<int64_t> sizes() const {
    MutexLock lock(&mutex_);
    return sizes_;
  }
  std::vector<int64_t> rows() const {
    MutexLock lock(&mutex_);
    return rows_;
  }
  // True for every batch that may run inline.
  std::vector<ExecutionHint> hints() const {
    MutexLock lock(&mutex_);
    return hints_;
  }
  // Rows of every request that a launch ran, in order of coming.
  std::vector<RowRange> ranges() const {
    MutexLock lock(&mutex_);
    return ranges_;
  }
  int64_t most_in_flight() const {
    MutexLock lock(&mutex_);
    return most_in_flight_;
  }

 private:
  struct Held {
    ClosedBatch batch;
    Finished finished;
  };

  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<Held> held_ ABSL_GUARDED_BY(mutex_);
  std::vector<int64_t> sizes_ ABSL_GUARDED_BY(mutex_);
  std::vector<ExecutionHint> hints_ ABSL_GUARDED_BY(mutex_);
  std::vector<int64_t> rows_ ABSL_GUARDED_BY(mutex_);
  std::vector<RowRange> ranges_ ABSL_GUARDED_BY(mutex_);
  int64_t in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t most_in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace qgemm

#endif  // QGEMM_TESTS_SERVER_SCHEDULING_HELD_SINK_H_
