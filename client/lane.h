// SPDX-License-Identifier: Apache-2.0
//
// One lane of a client: a call as a value goes in, its answer comes out, where
// it lies in the shared memory. lane_keeper.h opens lanes, lane_calls.h makes
// them of Gemms and Runs.

#ifndef QGEMM_CLIENT_LANE_H_
#define QGEMM_CLIENT_LANE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "client/lane_reaper.h"
#include "client/lane_ring.h"
#include "client/lane_segment.h"
#include "client/lane_socket.h"
#include "client/lane_targets.h"
#include "lane/segment.h"
#include "qgemm/client_options.h"
#include "qgemm/gemm.h"

namespace qgemm {

// A call as a lane carries it. Borrows for the length of ClientLane::Call, or,
// of operands in the lane's memory, until the call's end.
struct LaneWork {
  LaneTarget target;
  // Its m, types, mode, rounding and priority; the lane sets the rest.
  lane::RequestEntry entry;
  // Bytes of what OpenLaneTarget counts rows in: an element's, or 1.
  int64_t a_unit_bytes = 1;
  int64_t c_unit_bytes = 1;
  // Inputs that lie in the lane's memory are used there; else all are copied,
  // which those on a device cannot be.
  bool lends_inputs = true;
  // A or the inputs, one behind the other, [m, row] each.
  absl::Span<const absl::Span<const uint8_t>> inputs;
  // The caller's memory for C or the outputs; empty: none.
  absl::Span<const absl::Span<uint8_t>> outputs;
  absl::Time deadline = absl::InfiniteFuture();
};

struct LaneOutcome {
  enum class End : uint8_t {
    kAnswered,  // `status` is the call's
    // The lane has no room for it, or knows another shape, as `status` says;
    // OK: operands lie on a device where the lane cannot use them.
    kNotCarried,
    kLost,  // the lane ended, as `status` says
  };

  End end = End::kNotCarried;
  absl::Status status;
  // If it was answered with OK: C, within the lane's memory, until this goes.
  absl::Span<const uint8_t> c;
  bool is_placed = false;  // `c` is the caller's memory
  Timings timings;
  LaneSegment::Range c_range;  // holds `c` if it is not the caller's
  LaneSegment::Range a_range;  // the inputs, if they were copied
};

// Thread-safe. A call holds a reference.
class ClientLane {
 public:
  // Opens a lane at the server's socket. Errors: those of LaneSocket::Connect
  // and LaneSegment::Map.
  static absl::StatusOr<std::shared_ptr<ClientLane>> Open(
      const std::string& path, const std::string& token,
      const ClientLaneOptions& options, absl::Time deadline);

  ClientLane(const ClientLane&) = delete;
  ClientLane& operator=(const ClientLane&) = delete;

  // Makes the call and waits for its answer. Operands that lie in the lane's
  // memory are used where they are; others are copied. Past the deadline, a
  // call whose C is the caller's lane memory still waits for the server, which
  // may be writing there.
  LaneOutcome Call(const LaneWork& work);

  // True if Start finds the target open.
  bool IsOpen(const LaneTarget& target) {
    return targets_.FindOpen(target) != nullptr;
  }
  // Opens it; `done` runs once, on this thread or one of the lane's, with no
  // lock held.
  void OpenLater(const LaneTarget& target, LaneTargets::OpenDone done) {
    targets_.OpenLater(target, std::move(done));
  }

  // As Call, without waiting: `done` runs once, on a thread of the lane's, with
  // no lock held. An outcome: the call has not begun, and nothing was taken
  // from `done`; UNAVAILABLE, too, if the target is not open.
  using Done = absl::AnyInvocable<void(LaneOutcome)>;
  std::variant<LaneSlot, LaneOutcome> Start(const LaneWork& work, Done* done);
  // Ends a call that Start made with CANCELLED, if its C is not the caller's.
  void Cancel(LaneSlot slot) { reaper_.Cancel(slot); }
  // True within `done`.
  bool OnThread() const { return reaper_.OnThread(); }

  // Lane memory for a caller's operands; a none range if there is no room.
  LaneSegment::Range Allocate(int64_t bytes) {
    FreeAbandoned();
    return segment_->Allocate(bytes);
  }

  bool has_ended() const { return ring_.has_ended(); }

  // Returns when the lane has ended, and all calls that Start made, with the
  // reason; on one thread.
  absl::Status Serve();
  // Makes it end.
  void HangUp() { socket_->HangUp(); }

 private:
  // Resources of a request in flight.
  struct InFlight {
    LaneSlot slot;
    LaneTargets::HandlePtr handle;
    LaneSegment::Range a_range;
    LaneSegment::Range c_range;
    absl::Span<uint8_t> placed_c;  // the caller's memory, if c_range is none
  };

  // Place at which the server finds an operand.
  struct Place {
    uint64_t offset = 0;
    uint8_t region = 0;
  };

  ClientLane(LaneSocket::Granted granted, std::shared_ptr<LaneSegment> segment,
             const ClientLaneOptions& options);

  // Completes the entry and what it needs; nullopt, or the call's end.
  std::optional<LaneOutcome> Prepare(const LaneWork& work,
                                     lane::RequestEntry* entry,
                                     InFlight* flight);
  // The place of memory that the server can use; nullopt: it cannot.
  std::optional<Place> PlaceOf(absl::Span<const uint8_t> bytes) const;
  // Find the places of C, and of A, which is copied in if need be; nullopt, or
  // the call's end: there is no room, or no place for what lies on a device.
  std::optional<LaneOutcome> PlaceResult(const LaneWork& work,
                                         lane::RequestEntry* entry,
                                         InFlight* flight);
  std::optional<LaneOutcome> PlaceInputs(const LaneWork& work,
                                         lane::RequestEntry* entry,
                                         InFlight* flight);
  // The end of a call by that of its wait.
  LaneOutcome OutcomeOf(LaneRing::WaitEnd end, InFlight flight);
  LaneOutcome TakeAnswer(InFlight flight);
  LaneOutcome Lost();

  // Keeps what a request holds that nobody waits for, until it is answered.
  void Abandon(InFlight flight);
  // Gives back what has been answered since.
  void FreeAbandoned();

  const std::unique_ptr<LaneSocket> socket_;
  const std::shared_ptr<LaneSegment> segment_;
  const std::vector<DeviceOperands> devices_;
  const std::vector<uint8_t> regions_;  // their numbers
  LaneRing ring_;
  LaneTargets targets_;
  std::atomic<bool> has_abandoned_{false};
  Mutex mutex_;
  std::vector<InFlight> abandoned_ ABSL_GUARDED_BY(mutex_);
  absl::Status end_ ABSL_GUARDED_BY(mutex_);  // not OK once it has ended
  LaneReaper reaper_;  // last: the ends of its calls use the rest
};

}  // namespace qgemm

#endif  // QGEMM_CLIENT_LANE_H_
