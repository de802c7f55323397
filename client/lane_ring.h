// SPDX-License-Identifier: Apache-2.0
//
// The client's side of a lane's requests and completions: slots, publishing,
// and the wait for an answer. lane/segment.h has the rules.

#ifndef QGEMM_CLIENT_LANE_RING_H_
#define QGEMM_CLIENT_LANE_RING_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/file_descriptor.h"
#include "base/mutex.h"
#include "base/wait_estimate.h"
#include "client/answer_wait.h"
#include "client/lane_segment.h"
#include "lane/segment.h"
#include "qgemm/gemm.h"

namespace qgemm {

// A slot, for one request.
struct LaneSlot {
  uint32_t number = 0;
  uint32_t cookie = 0;  // that its completion will show
};

// Thread-safe.
class LaneRing {
 public:
  // Wait ends with one of the first three.
  enum class WaitEnd : uint8_t { kDone, kDeadline, kClosed, kCancelled };

  // Waits look at their completion for `spin`, from when it is expected on,
  // before they sleep until they are woken.
  LaneRing(std::shared_ptr<LaneSegment> segment, FileDescriptor doorbell,
           absl::Duration spin);
  LaneRing(const LaneRing&) = delete;
  LaneRing& operator=(const LaneRing&) = delete;

  // nullopt: all are in use.
  std::optional<LaneSlot> TakeSlot();

  // Sends the request; its slot and cookie are set here.
  void Publish(LaneSlot slot, lane::RequestEntry entry);

  // Waits for the answer of a request that has just been published, whose like
  // `estimate` knows. kClosed: none will come.
  WaitEnd Wait(LaneSlot slot, absl::Time deadline,
               AnswerEstimate* estimate) const;
  // Waits on. The answer may take as long as it likes.
  WaitEnd WaitAsleep(LaneSlot slot, absl::Time deadline) const;

  // The answer is there.
  bool IsDone(LaneSlot slot) const;

  // The answer that is there: its status, with the server's delay if it named
  // one, and its timings.
  absl::Status StatusOf(LaneSlot slot) const;
  Timings TimingsOf(LaneSlot slot) const;

  // Gives back a slot that was never published, or whose answer was read.
  void ReturnSlot(LaneSlot slot);

  // Ends all waits, and those to come, whose answer is not there.
  void Close();
  // The server takes no requests any more, or Close was called.
  bool has_ended() const;

 private:
  bool Spin(const lane::Completion& completion, uint32_t cookie) const;
  // Sleeps for no longer than `limit`; not at all if the answer is there.
  void Sleep(LaneSlot slot, absl::Duration limit) const;

  const std::shared_ptr<LaneSegment> segment_;
  const FileDescriptor doorbell_;
  const absl::Duration spin_;
  std::atomic<bool> closed_{false};

  Mutex mutex_;
  std::vector<uint32_t> free_slots_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint32_t> cookies_ ABSL_GUARDED_BY(mutex_);  // last, by slot
  uint64_t published_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace qgemm

#endif  // QGEMM_CLIENT_LANE_RING_H_
