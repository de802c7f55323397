// SPDX-License-Identifier: Apache-2.0
//
// Ends what stops: an upload, an operand in part or an answer that makes no
// progress. One thread looks at all calls once a period, by counters that the
// calls keep anyway; a call costs no timer, no lock and no clock.

#ifndef QGEMM_SERVER_RPC_IDLE_SWEEPER_H_
#define QGEMM_SERVER_RPC_IDLE_SWEEPER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "rpc/completion_queue.h"
#include "server/metrics/server_metrics.h"

namespace qgemm {

struct ProgressLimits {
  // Longest time without any progress.
  absl::Duration idle_timeout = absl::Seconds(30);
  // Least rate over windows of 10 s; 0: none.
  int64_t min_bytes_per_second = 0;
};

enum class Progress : uint8_t { kFine, kIdle, kSlow };

// Judges a transfer by its count of bytes, or of anything else that grows, at
// the times when somebody looks. Not thread-safe.
class ProgressWatch {
 public:
  // `count` as it is at `now`. The first look, and the first after a Reset,
  // begins the watch.
  Progress Look(int64_t count, const ProgressLimits& limits, absl::Time now);

  // Says that the other side need not make progress now, because we do not
  // read, say.
  void Reset() { watching_ = false; }

  // Time without progress, as the last look saw it.
  absl::Duration idle() const { return idle_; }

 private:
  bool watching_ = false;
  int64_t count_ = 0;
  absl::Time changed_;
  absl::Duration idle_;
  absl::Time window_start_;
  int64_t window_count_ = 0;
};

// Answers that wait to be read, and their operand bytes.
struct AnswersWaiting {
  int64_t answers = 0;
  int64_t bytes = 0;
};

// One look at all calls of a queue.
struct SweepRound {
  absl::Time now;
  // Bounds of an upload and of an operand that comes in part. An answer that
  // goes out has the same idle_timeout, and no rate.
  ProgressLimits limits;
  ServerMetrics* metrics = nullptr;   // CallTimedOut
  AnswersWaiting* waiting = nullptr;  // each call adds its own
};

// A call in its queue's list of links, which holds nothing else.
class SweptCall : public QueueLink {
 public:
  // Runs on the queue's thread, once a period; must not block.
  virtual void Sweep(const SweepRound& round) = 0;

 protected:
  ~SweptCall() = default;
};

// Thread-safe, but for Start and Stop: each once, on one thread.
class IdleSweeper {
 public:
  // `clock` and `metrics` must outlive the queues that are swept.
  IdleSweeper(const ProgressLimits& limits, const Clock* clock,
              ServerMetrics* metrics);
  ~IdleSweeper() { Stop(); }

  // Sweeps these server's queues, of one thread each, until Stop: once a
  // second, or oftener if the idle timeout is short. `also` runs as often, on
  // the sweeper's thread; it may be null.
  void Start(std::vector<CompletionQueue*> queues,
             std::function<void(absl::Time now)> also = nullptr);

  // No task goes to a queue after this.
  void Stop();

  // Looks once at every call of the queue, on the queue's thread, soon.
  void Sweep(CompletionQueue* queue);

 private:
  void Run(absl::Duration period);
  // Sets what the metrics count of this queue's answers.
  void Report(const CompletionQueue* queue, const AnswersWaiting& waiting);

  const ProgressLimits limits_;
  const Clock* const clock_;
  ServerMetrics* const metrics_;
  std::vector<CompletionQueue*> queues_;
  std::function<void(absl::Time now)> also_;
  Mutex reported_mutex_;
  std::map<const CompletionQueue*, AnswersWaiting> reported_
      ABSL_GUARDED_BY(reported_mutex_);
  Mutex mutex_;
  CondVar stopped_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_IDLE_SWEEPER_H_
