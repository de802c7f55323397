// SPDX-License-Identifier: Apache-2.0
//
// The server's ends of a lane's rings: requests out of shared memory,
// completions into it. What a request means is in lane_requests.h.

#ifndef QGEMM_SERVER_LANE_RINGS_H_
#define QGEMM_SERVER_LANE_RINGS_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/file_descriptor.h"
#include "lane/segment.h"
#include "server/lane/lane_memory.h"
#include "server/metrics/server_metrics.h"

namespace qgemm {

// Takes requests. Trusts its own count alone. Used by one thread at a time.
class RequestReader {
 public:
  // `memory` must outlive the reader.
  explicit RequestReader(const LaneMemory* memory) : memory_(*memory) {}

  // The number of requests that are published and not taken. INVALID_ARGUMENT
  // if they are more than the ring holds, or the count has gone back: there is
  // nothing to read then, and never will be.
  absl::StatusOr<uint32_t> Waiting() const;

  // Asks for the memory that Waiting reads.
  void Prefetch() const { __builtin_prefetch(&memory_.head().published); }

  // The next request, as it was at one moment; one must be waiting.
  lane::RequestEntry Take();

  // Tell the client that it must ring the doorbell, or need not. FallAsleep
  // returns false, and it need not, if something is published already.
  bool FallAsleep();
  void StayAwake();

 private:
  const LaneMemory& memory_;
  uint64_t taken_ = 0;
};

// A request's end. `message` and `timings` are borrowed.
struct LaneAnswer {
  absl::Status status;
  GemmTimings timings;
  absl::Duration total;
  absl::Duration retry_delay;  // above zero: the same request may succeed then
};

// Slots in use and their completions. Thread-safe.
class CompletionWriter {
 public:
  // `memory` must outlive the writer; `wake` is a socket whose other end the
  // client has.
  CompletionWriter(const LaneMemory* memory, FileDescriptor wake);

  // Takes a slot for a request. FAILED_PRECONDITION if there is no such slot or
  // a request has it: the lane's client is wrong about its slots.
  absl::Status Claim(uint32_t slot);

  // Writes the completion of a claimed slot, which is free again then. True if
  // somebody sleeps for it, and no other Wake is to come that would do: Wake
  // must follow.
  bool Write(uint32_t slot, uint32_t cookie, const LaneAnswer& answer);
  // Wakes whoever sleeps for the slot, or for any.
  void Wake(uint32_t slot);

  // Tells the client that the lane has ended, and wakes all that sleep.
  void End(absl::StatusCode code);

 private:
  void WakeClient() const;

  const LaneMemory& memory_;
  const FileDescriptor wake_;
  const std::unique_ptr<std::atomic<bool>[]> claimed_;  // [slots]
  // Apart from what Claim reads, on another thread.
  alignas(64) std::atomic<uint64_t> completed_{0};
  // Somebody must call Wake, who has not begun to look at the client.
  std::atomic<bool> wake_due_{false};
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_LANE_RINGS_H_
