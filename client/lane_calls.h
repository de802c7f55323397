// SPDX-License-Identifier: Apache-2.0
//
// Gemms and Runs by a client's lane, with their retries.

#ifndef QGEMM_CLIENT_LANE_CALLS_H_
#define QGEMM_CLIENT_LANE_CALLS_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client/call_engine.h"
#include "client/lane.h"
#include "client/lane_keeper.h"
#include "qgemm/client_options.h"
#include "qgemm/gemm.h"
#include "qgemm/program.h"

namespace qgemm {

// A Gemm or a Run as a lane carries it, and its operands (lane_work.cc).

// The request as a lane carries it, which borrows from it; nullopt: it does
// not, or a call says what is wrong with it.
std::optional<LaneWork> WorkOf(const GemmRequest& request);
std::optional<LaneWork> WorkOf(const RunRequest& request);

absl::Span<const absl::Span<const uint8_t>> InputsOf(
    const GemmRequest& request);
absl::Span<const absl::Span<const uint8_t>> InputsOf(const RunRequest& request);

// True if the operands stay until they are released.
bool Lends(const GemmRequest& request);
bool Lends(const RunRequest& request);

// Tells who lent them, if somebody did, that they are not in use any more.
void Release(const GemmRequest& request);
void Release(const RunRequest& request);

// Makes the bytes, one operand behind the other, the request's.
void PointTo(absl::Span<const uint8_t> bytes, GemmRequest* request);
void PointTo(absl::Span<const uint8_t> bytes, RunRequest* request);

// Rest of a call, which a lane leaves to gRPC.
struct LaneRemainder {
  int attempts = 0;      // that it made
  absl::Duration pause;  // before the next
};

// Gives such a call to gRPC, within Start's thread or that of the lane.
template <typename Request, typename Result>
using GoOnByCall = absl::AnyInvocable<CallHandle(
    const Request& request, LaneRemainder remainder,
    absl::AnyInvocable<void(absl::StatusOr<Result>)> callback)>;

// Calls that the lane makes. Both must outlive it. Thread-safe.
class LaneCalls {
 public:
  LaneCalls(LaneUse use, const LaneKeeper* keeper, CallEngine* engine)
      : use_(use), keeper_(*keeper), engine_(*engine) {}

  // The ends of calls; nullopt: the call goes by gRPC, and what it lends was
  // not released.
  std::optional<absl::StatusOr<GemmResult>> Gemm(const GemmRequest& request);
  std::optional<absl::StatusOr<RunResult>> Run(const RunRequest& request);

  // Starts calls: `callback` runs on the lane's thread, or `go_on` makes the
  // call, which may be at once.
  CallHandle Start(const GemmRequest& request, GemmCallback callback,
                   GoOnByCall<GemmRequest, GemmResult> go_on);
  CallHandle Start(const RunRequest& request, RunCallback callback,
                   GoOnByCall<RunRequest, RunResult> go_on);

 private:
  class CancelWay;
  template <typename Request, typename Result>
  struct StartedCall;

  // Calls of this thread may wait for the lane.
  bool MayWait() const;
  // True if the call ends with UNAVAILABLE, and does not go by gRPC, while
  // there is no lane.
  bool NeedsLane(const LaneWork& work) const;
  // True if gRPC does not make the call: there is a lane, or it needs one.
  bool IsInUse(const LaneWork& work) const;
  // True if gRPC cannot go on with the call.
  bool IsOnDevice(const LaneWork& work) const;
  // True if gRPC goes on with the call after that outcome.
  bool GoesByCall(const LaneWork& work, const LaneOutcome& outcome) const;
  // True if the lane, which has forgotten the shape that it knew, may take the
  // call by the one that the name has now; gRPC finds out for what it carries.
  bool MayFitAnew(const LaneWork& work, const LaneOutcome& outcome) const;
  // Repeats the call as the retry policy says. `answered` makes the result of
  // an outcome that is OK.
  template <typename Result, typename Answered>
  std::optional<absl::StatusOr<Result>> Make(const LaneWork& work,
                                             const Answered& answered);
  // The outcome of one attempt.
  LaneOutcome Attempt(const LaneWork& work) const;
  // Ends the call, or gives it to gRPC.
  template <typename Request, typename Result>
  void TakeOutcome(StartedCall<Request, Result>* call, LaneOutcome outcome);
  // Ends a call that the lane has not begun, or gives it to gRPC.
  template <typename Request, typename Result>
  void TakeRefusal(const std::shared_ptr<StartedCall<Request, Result>>& call,
                   LaneOutcome outcome);
  // Ends it on a thread of the engine's.
  template <typename Request, typename Result>
  void Fail(const std::shared_ptr<StartedCall<Request, Result>>& call,
            const absl::Status& status);
  // nullopt: the lane carries the call, whose target is open.
  template <typename Request, typename Result>
  std::optional<LaneOutcome> TryStart(
      const std::shared_ptr<ClientLane>& lane,
      const std::shared_ptr<StartedCall<Request, Result>>& call);
  // Starts the call when the lane has opened what it names, unless its deadline
  // or Cancel ends it before.
  template <typename Request, typename Result>
  void StartOnceOpen(const std::shared_ptr<ClientLane>& lane,
                     const std::shared_ptr<StartedCall<Request, Result>>& call);
  // Starts it now or then.
  template <typename Request, typename Result>
  void StartOn(const std::shared_ptr<ClientLane>& lane,
               const std::shared_ptr<StartedCall<Request, Result>>& call);
  template <typename Request, typename Result>
  CallHandle StartOrGoOn(
      const Request& request,
      absl::AnyInvocable<void(absl::StatusOr<Result>)> callback,
      GoOnByCall<Request, Result> go_on);
  // Rest of a call that was started, after an outcome that is no result;
  // nullopt: none.
  std::optional<LaneRemainder> RemainderOf(const LaneWork& work,
                                           LaneOutcome* outcome);

  const LaneUse use_;
  const LaneKeeper& keeper_;
  CallEngine& engine_;
};

}  // namespace qgemm

#endif  // QGEMM_CLIENT_LANE_CALLS_H_
