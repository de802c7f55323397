// SPDX-License-Identifier: Apache-2.0
//
// Ends the calls of a lane for which no thread waits: one thread of the lane's
// takes their answers as they come, in the order of the done words.

#ifndef QGEMM_CLIENT_LANE_REAPER_H_
#define QGEMM_CLIENT_LANE_REAPER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "base/file_descriptor.h"
#include "base/mutex.h"
#include "client/answer_wait.h"
#include "client/lane_ring.h"
#include "client/lane_segment.h"

namespace qgemm {

// Thread-safe.
class LaneReaper {
 public:
  // A call from before its request is published until its end.
  struct Awaited {
    LaneSlot slot;
    absl::Time deadline = absl::InfiniteFuture();
    // It may end while the server still has its operands: by its deadline, or
    // by Cancel.
    bool can_be_left = false;
    AnswerEstimate* estimate = nullptr;  // good while `done` lives
    absl::Time published;                // set by Await
    // Runs once, on the reaper's thread, with no lock held; the slot is then
    // the callee's.
    absl::AnyInvocable<void(LaneRing::WaitEnd)> done;
  };

  // Looks for answers for `spin` after the last, and from when one is expected
  // on, before it sleeps until it is woken; `wake` is the lane's. `ring` must
  // outlive it.
  LaneReaper(std::shared_ptr<LaneSegment> segment, const LaneRing* ring,
             FileDescriptor wake, absl::Duration spin);
  LaneReaper(const LaneReaper&) = delete;
  LaneReaper& operator=(const LaneReaper&) = delete;
  ~LaneReaper();

  // Keeps the thread going until the next Await, one for each; false after
  // Stop.
  bool Reserve();
  // Takes the call over.
  void Await(Awaited call);

  // Ends the call with kCancelled if it has not ended and can be left.
  void Cancel(LaneSlot slot);

  // Ends all calls, those without an answer with kClosed, and the thread. After
  // the ring's Close; not on the thread.
  void Stop();

  bool OnThread() const;

 private:
  struct Ended {
    absl::AnyInvocable<void(LaneRing::WaitEnd)> done;
    LaneRing::WaitEnd end = LaneRing::WaitEnd::kDone;
  };

  void Run();
  // Waits while no call is awaited; false: none will be.
  bool AwaitCalls();
  // Ends the calls of the done words that have come; false if none has.
  bool TakeDone();
  // Ends every call that can end.
  void Sweep();
  // End of the call by now; nullopt: not yet.
  std::optional<LaneRing::WaitEnd> EndOf(const Awaited& call,
                                         absl::Time now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Ended Take(std::optional<Awaited>* call, LaneRing::WaitEnd end,
             absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Observe(const Awaited& call, absl::Time now);
  // Makes the thread sweep, and awakes it.
  void SweepNow();
  // Until it is woken, or the next deadline, or shortly before the next answer.
  void Sleep();
  absl::Duration UntilNextDeadline();
  // The answer that comes next, as far as is known.
  struct Expected {
    LaneSlot slot;
    absl::Time sleep_until = absl::InfinitePast();
  };
  Expected LookAhead();

  // The word that the ring of done words shows next, if it has come.
  uint64_t NextWord() const;
  bool HasNews() const;

  const std::shared_ptr<LaneSegment> segment_;
  const LaneRing& ring_;
  FileDescriptor wake_;  // invalid once the server has hung up
  const FileDescriptor kick_;
  const absl::Duration spin_;
  // The thread's:
  uint64_t position_ = 0;                    // of the next done word
  std::optional<Expected> expected_;         // nullopt: not looked for yet
  absl::Time awake_ = absl::InfinitePast();  // after a sleep
  bool was_asleep_ = false;  // until what came during a sleep is ended

  std::atomic<int> count_{0};  // of calls that are awaited, or will be
  std::atomic<bool> must_sweep_{false};
  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::optional<Awaited>> awaited_
      ABSL_GUARDED_BY(mutex_);  // by slot
  std::vector<bool> cancelled_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace qgemm

#endif  // QGEMM_CLIENT_LANE_REAPER_H_
