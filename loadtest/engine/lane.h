// SPDX-License-Identifier: Apache-2.0
//
// One lane of the load generator: a thread that sends what is due, and the
// transport's thread that counts what ends and sends what that made due. What
// is due is decided in due_requests.h.

#ifndef QGEMM_LOADTEST_ENGINE_LANE_H_
#define QGEMM_LOADTEST_ENGINE_LANE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/histogram.h"
#include "base/mutex.h"
#include "loadtest/engine/answer_observer.h"
#include "loadtest/engine/due_requests.h"
#include "loadtest/engine/lane_options.h"
#include "loadtest/engine/request_picker.h"
#include "loadtest/engine/transport.h"
#include "loadtest/report/run_result.h"

namespace qgemm {

// A result with nothing counted and room to count: recording usual values
// allocates nothing.
RunResult EmptyResult(const GeneratorOptions& options);

// What ended since the counts were last taken.
struct IntervalCounts {
  IntervalCounts();
  void Merge(const IntervalCounts& other);
  void Clear();

  Histogram latency_ns;  // of answers, from the intended start
  Histogram counted_ns;  // of those due after the warm-up
  int64_t rows = 0;
  int64_t errors = 0;
  int64_t max_lag_ns = 0;
  double launch_rows = 0;  // summed over the answers
};

// What a lane calls. All of it must outlive the lane.
struct LaneParts {
  TransportFactory* transports = nullptr;
  const RequestPicker* picker = nullptr;
  AnswerObserver* observer = nullptr;  // may be null
  const Clock* clock = nullptr;        // as DueRequests' times are told
};

// Start, then Stop or the end of the time, then Join; TakeInterval any time.
class Lane final : public RequestSink {
 public:
  // Errors: those of opening the connections.
  static absl::StatusOr<std::unique_ptr<Lane>> Create(
      const GeneratorOptions& options, int lane, const LaneParts& parts);
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  ~Lane() override;

  void Start(absl::Time start);
  // Sends nothing more; what is in flight still ends. After Start.
  void Stop();
  // Cancels what has been in flight for longer than options.timeout.
  void GiveUpOverdue();
  // Nothing is in flight, and nothing will be sent.
  bool done() const { return done_.load(std::memory_order_acquire); }
  // Waits until done, and ends the thread.
  void Join();

  // Swaps what ended since the last call into `counts`, which must be clear.
  void TakeInterval(std::unique_ptr<IntervalCounts>* counts);
  int in_flight() const { return in_flight_.load(std::memory_order_relaxed); }

  // After Join: all counts of the lane, but for series and times.
  RunResult TakeResult();

  void OnEnd(int place, const EndedRequest& end) override;

 private:
  // A request in flight. Written before it is sent, read when it ended.
  struct Sent {
    DueRequest request;
    PickedRequest picked;
    absl::Time time;
  };
  // How a request ended, as far as the lane had a hand in it.
  struct Ended {
    Sent sent;
    bool cancelled = false;
    bool given_up = false;
    std::optional<DueAction> next;  // what its end made due
  };

  Lane(const GeneratorOptions& options, int lane, const LaneParts& parts);

  void Run();
  // What is due, once something is; nothing when nothing ever will be.
  std::optional<DueAction> AwaitAction();
  void Do(const DueAction& action);
  void Send(const DueRequest& request);
  Ended Release(int place, const absl::Status& status, absl::Time now);
  void Count(const Ended& ended, const EndedRequest& end, absl::Time now);
  void CountAnswer(const Sent& sent, const EndedRequest& end, absl::Time now);
  // True for an error, false for what the run itself asked for.
  bool CountFailure(const Ended& ended, const EndedRequest& end,
                    absl::Time now);

  const GeneratorOptions options_;
  const int lane_;
  const LaneParts parts_;
  absl::Time counted_from_;  // set by Start, and end_ too
  absl::Time end_;
  std::unique_ptr<Transport> transport_;
  std::atomic<bool> done_{false};
  std::atomic<int> in_flight_{0};

  // Of the transport's thread until Join.
  RunResult result_;
  int64_t answers_seen_ = 0;
  absl::Time last_end_ = absl::InfinitePast();  // of a counted request

  Mutex mutex_;
  CondVar changed_;
  std::optional<DueRequests> due_ ABSL_GUARDED_BY(mutex_);  // since Start
  // The transport's thread is between an end and its counts: not done yet,
  // although nothing may be in flight.
  bool counting_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time wait_until_ ABSL_GUARDED_BY(mutex_);  // what the thread waits for
  std::vector<bool> cancelled_ ABSL_GUARDED_BY(mutex_);  // by place
  std::vector<bool> given_up_ ABSL_GUARDED_BY(mutex_);   // by place
  std::vector<int> overdue_ ABSL_GUARDED_BY(mutex_);     // kept for its memory
  absl::Status disconnect_failure_ ABSL_GUARDED_BY(mutex_);
  std::vector<Sent> sent_;  // by place; an entry belongs to its request

  Mutex interval_mutex_;
  std::unique_ptr<IntervalCounts> interval_ ABSL_GUARDED_BY(interval_mutex_);

  std::thread thread_;
};

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_ENGINE_LANE_H_
