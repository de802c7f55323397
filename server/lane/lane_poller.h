// SPDX-License-Identifier: Apache-2.0
//
// The thread that looks for requests on all lanes: it spins while they are
// busy, and sleeps until a doorbell rings when they are not.

#ifndef QGEMM_SERVER_LANE_LANE_POLLER_H_
#define QGEMM_SERVER_LANE_LANE_POLLER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/file_descriptor.h"
#include "base/mutex.h"
#include "kernels/matrix/completion_poller.h"
#include "lane/segment.h"
#include "server/lane/lane.h"

namespace qgemm {

// Requests that one lane may bring before the next one's turn.
inline constexpr uint32_t kLaneTurn = 32;

// A request that was taken from its lane.
struct LaneArrival {
  std::shared_ptr<Lane> lane;
  lane::RequestEntry entry;
};

// Thread-safe.
class LanePoller {
 public:
  // All run on the poller's thread: `serve` with the requests of a turn, whose
  // slots are claimed; `broken` when a lane's client broke the protocol
  // (Lane::Break); `woken` when the thread has slept and was woken.
  struct Callbacks {
    absl::AnyInvocable<void(absl::Span<const LaneArrival> arrivals)> serve;
    absl::AnyInvocable<void()> broken;
    absl::AnyInvocable<void()> woken;
  };

  // Sleeps once nothing has come for `spin`, later if a batch is under way.
  // Ends batches meanwhile by `completions`, null if that is none, which must
  // outlive the poller.
  LanePoller(absl::Duration spin, CompletionPoller* completions,
             Callbacks callbacks);
  LanePoller(const LanePoller&) = delete;
  LanePoller& operator=(const LanePoller&) = delete;
  ~LanePoller();

  // Starts the thread. Once.
  void Start();
  // Ends it; nothing is taken any more. Idempotent, but for one thread at a
  // time.
  void Stop();

  // The poller keeps the lane until Remove, and a moment longer.
  void Add(const std::shared_ptr<Lane>& lane);
  void Remove(const std::shared_ptr<Lane>& lane);

 private:
  using Lanes = std::vector<std::shared_ptr<Lane>>;

  void Run();
  void Attend();
  void Leave();
  // kEnded if a batch was, or requests were served.
  PollResult Poll(const Lanes& lanes);
  // Serves the turns of all lanes together; true if there was anything.
  bool PollAll(const Lanes& lanes);
  // Takes a lane's turn.
  void Take(const std::shared_ptr<Lane>& lane);
  // Waits for a doorbell, unless something is published.
  void Sleep(const Lanes& lanes);
  void Break(const std::shared_ptr<Lane>& lane, const absl::Status& violation);
  void WakeUp();

  const absl::Duration spin_;
  CompletionPoller* const completions_;  // null: none
  Callbacks callbacks_;
  std::vector<LaneArrival> taken_;  // the thread's
  FileDescriptor epoll_;
  FileDescriptor wake_;  // an event: the lanes changed, or the end
  std::atomic<uint64_t> changes_{1};
  std::atomic<bool> stopping_{false};
  Mutex mutex_;
  Lanes lanes_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_LANE_LANE_POLLER_H_
