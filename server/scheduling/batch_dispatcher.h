// SPDX-License-Identifier: Apache-2.0
//
// Runs closed batches on a backend: builds the launch from the requests'
// leases, enqueues it, and completes every request with its share of the
// timings.

#ifndef QGEMM_SERVER_SCHEDULING_BATCH_DISPATCHER_H_
#define QGEMM_SERVER_SCHEDULING_BATCH_DISPATCHER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/live_count.h"
#include "base/mutex.h"
#include "kernels/matrix/backend.h"
#include "server/metrics/server_metrics.h"
#include "server/scheduling/batch_scheduler.h"

namespace qgemm {

// Completing a request sends its answer, which takes longer than a launch of
// few rows. So the launch's thread runs only few short completions at once;
// more or longer ones are posted to each request's completion_executor, and the
// next launch does not wait for them. Those of requests without an executor
// follow that launch.

// Sending a short answer takes some 15 us, waking a thread about as long.
inline constexpr int64_t kMaxInlineCompletions = 2;
// Sending a megabyte takes some 100 us; beyond that the next launch waits
// longer for the thread than the answer would wait for another one.
inline constexpr int64_t kMaxInlineAnswerBytes = int64_t{2} << 20;
// Completions posted as one task; an executor of several threads shares the
// tasks among them.
inline constexpr int64_t kMaxCompletionsPerTask = 8;

// True if the launch's thread completes its requests itself, whose answers have
// `answer_bytes` in total.
inline bool CompletesInline(int64_t requests, int64_t answer_bytes) {
  return requests <= kMaxInlineCompletions &&
         answer_bytes <= kMaxInlineAnswerBytes;
}

// A launch that the backend has not ended.
struct LaunchInFlight {
  uint64_t number = 0;  // counts the launches
  absl::Time start;
};

// Thread-safe. Must outlive every launch it was given, but for those that Fail
// ended; the destructor waits for the posted completions.
class BatchDispatcher final : public BatchSink {
 public:
  // `backend`, `clock` and `metrics` must outlive the dispatcher.
  BatchDispatcher(Backend* backend, const Clock* clock, ServerMetrics* metrics);
  ~BatchDispatcher() override;

  void Submit(ClosedBatch batch, Finished finished) override;

  // The oldest launch in flight; nullopt without one.
  std::optional<LaunchInFlight> OldestLaunch() const;

  // Ends the requests of every launch in flight with `status`, on this thread,
  // and those of launches to come, which the backend does not see. What the
  // backend makes of the launches is ignored. It may still write their memory,
  // which is kept until it completes them: perhaps for ever.
  void Fail(const absl::Status& status);

  // Returns when no launch is in flight, or at `deadline`; true if none is.
  bool WaitForLaunches(absl::Time deadline) const;

  // Waits until every posted completion has run.
  void WaitForCompletions() { posted_.WaitUntilNone(); }

 private:
  struct Launch;
  // End of a launch, as the backend reports it.
  struct LaunchEnd {
    absl::Status status;
    BatchTimings timings;
  };
  // Requests [first, first + count) of a launch.
  struct RequestRange {
    int64_t first = 0;
    int64_t count = 0;
  };

  // Counts the launch as in flight, unless Fail has run: returns its status.
  absl::Status Enter(const std::shared_ptr<Launch>& launch);
  // Hands the launch's batch to the backend.
  absl::Status Enqueue(const std::shared_ptr<Launch>& launch);
  // The launch is in flight no more.
  void Leave(const Launch* launch);
  // Completes the requests, or posts their completions, then ends the launch,
  // which the caller has claimed.
  void EndLaunch(const std::shared_ptr<Launch>& launch, LaunchEnd end);
  // Ends a claimed launch whose memory the backend may write.
  void Abandon(const std::shared_ptr<Launch>& launch,
               const absl::Status& status);
  void TakeEnd(LaunchEnd end, Launch* launch);
  // Returns the number of requests that have no executor; they come first then.
  int64_t PostCompletions(const std::shared_ptr<Launch>& launch);
  void CountLaunch(const Launch& launch);
  // Adds the launch's times to the request's.
  static void AddTimings(const Launch& launch, ScheduledRequest* scheduled);
  static void CompleteRequests(Launch& launch, const RequestRange& range,
                               ServerMetrics* metrics);

  Backend* const backend_;
  const Clock* const clock_;
  ServerMetrics* const metrics_;
  // Tasks, and ends of launches after `finished`, that have not ended.
  LiveCount posted_;
  mutable Mutex mutex_;
  // The oldest first, but for ends out of order.
  std::vector<std::shared_ptr<Launch>> in_flight_ ABSL_GUARDED_BY(mutex_);
  uint64_t launches_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_SCHEDULING_BATCH_DISPATCHER_H_
