// SPDX-License-Identifier: Apache-2.0
//
// One sender of the load generator: its own thread sends requests that are due;
// the transport's thread counts requests that end and sends the next ones.
// due_requests.h decides which are due.

#ifndef QGEMM_LOADTEST_ENGINE_SENDER_H_
#define QGEMM_LOADTEST_ENGINE_SENDER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "loadtest/engine/due_requests.h"
#include "loadtest/engine/load_generator.h"
#include "loadtest/engine/series.h"
#include "loadtest/engine/transport.h"
#include "loadtest/report/loadtest_report.h"

namespace qgemm::loadtest {

// A result with nothing counted and room to count: recording usual values
// allocates nothing.
RunResult EmptyResult(const GeneratorOptions& options);

// Adds the counts of one sender.
void MergeCounts(const RunResult& sender, RunResult* all);

// Start, then Stop or the end of the time, then Join; TakeInterval and
// GiveUpOverdue from another thread at any time between.
class Sender final : public RequestSink {
 public:
  // Errors: those of opening the connections.
  static absl::StatusOr<std::unique_ptr<Sender>> Create(
      const GeneratorOptions& options, int sender, const GeneratorParts& parts);
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;
  ~Sender() override;

  void Start(absl::Time start);
  // Sends nothing more; requests in flight still end. After Start.
  void Stop();
  // Cancels requests that have been in flight for longer than options.timeout.
  void GiveUpOverdue();
  // True once nothing is in flight and nothing will be sent.
  bool done() const { return done_.load(std::memory_order_acquire); }
  // Waits until done, and ends the thread.
  void Join();

  // Swaps the counts since the last call into `counts`, which must be clear.
  void TakeInterval(std::unique_ptr<IntervalCounts>* counts);
  int in_flight() const { return in_flight_.load(std::memory_order_relaxed); }

  // After Join: all counts of the sender, but for series and times.
  RunResult TakeResult();

  void OnEnd(int slot, const EndedRequest& end) override;

 private:
  // A request in flight. Written before it is sent, read when it ended.
  struct Sent {
    DueRequest request;
    PickedRequest picked;
    absl::Time time;
  };
  // The end of a request, as far as the sender had a hand in it.
  struct Ended {
    Sent sent;
    bool cancelled = false;
    bool given_up = false;
    std::optional<DueAction> next;  // due because of the end
  };

  Sender(const GeneratorOptions& options, int sender,
         const GeneratorParts& parts);

  void Run();
  // Waits for the next due action; nullopt at the end of the schedule.
  std::optional<DueAction> AwaitAction();
  void Do(const DueAction& action);
  void Send(const DueRequest& request);
  Ended Release(int slot, const absl::Status& status, absl::Time now);
  void Count(const Ended& ended, const EndedRequest& end, absl::Time now);
  void CountAnswer(const Sent& sent, const EndedRequest& end, absl::Time now);
  // True for an error, false for a failure that the run itself asked for.
  bool CountFailure(const Ended& ended, const EndedRequest& end,
                    absl::Time now);

  const GeneratorOptions options_;
  const int number_;
  const GeneratorParts parts_;
  absl::Time counted_from_;  // set by Start, and end_ too
  absl::Time end_;
  std::unique_ptr<Transport> transport_;
  std::atomic<bool> done_{false};
  std::atomic<int> in_flight_{0};

  // Owned by the transport's thread until Join.
  RunResult result_;
  int64_t answers_seen_ = 0;
  absl::Time last_end_ = absl::InfinitePast();  // of a counted request

  Mutex mutex_;
  CondVar changed_;
  std::optional<DueRequests> due_ ABSL_GUARDED_BY(mutex_);  // since Start
  // The transport's thread is between an end and its counts: not done yet,
  // although nothing may be in flight.
  bool counting_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time wait_until_ ABSL_GUARDED_BY(mutex_);        // the thread's wake-up
  std::vector<bool> cancelled_ ABSL_GUARDED_BY(mutex_);  // by slot
  std::vector<int> overdue_ ABSL_GUARDED_BY(mutex_);     // kept for its memory
  absl::Status disconnect_failure_ ABSL_GUARDED_BY(mutex_);
  std::vector<Sent> sent_;  // by slot; an entry belongs to its request

  Mutex interval_mutex_;
  std::unique_ptr<IntervalCounts> interval_ ABSL_GUARDED_BY(interval_mutex_);

  std::thread thread_;
};

}  // namespace qgemm::loadtest

#endif  // QGEMM_LOADTEST_ENGINE_SENDER_H_
