// SPDX-License-Identifier: Apache-2.0

#include "client/lane_calls.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "client/device_operands.h"
#include "client/gemm_wire.h"
#include "client/lane_work.h"
#include "client/run_wire.h"

namespace qgemm {
namespace {

constexpr char kNoLane[] = "the server has ended the lane";

absl::string_view TextOf(absl::Span<const uint8_t> bytes) {
  return absl::string_view(reinterpret_cast<const char*>(bytes.data()),
                           bytes.size());
}

// The result of an answer that lies in the lane; it is copied once, unless it
// is the caller's memory.
template <typename Result, typename Expected>
absl::StatusOr<Result> ResultOf(const LaneOutcome& outcome,
                                const Expected& expected) {
  ASSIGN_OR_RETURN(Result result, ResultOfSize(outcome.c.size(), expected));
  result.timings = outcome.timings;
  if (!outcome.is_placed) {
    const absl::string_view c = TextOf(outcome.c);
    AppendPieces(absl::MakeConstSpan(&c, 1), 0, expected, &result);
  }
  return result;
}

ExpectedResult ExpectedOf(const GemmRequest& request) {
  return ExpectedResult(request);
}
ExpectedOutputs ExpectedOf(const RunRequest& request) {
  return ExpectedOutputs(request);
}

}  // namespace

bool LaneCalls::IsInUse() const {
  if (use_ == LaneUse::kOff || engine_.OnEngineThread() ||
      keeper_.OnLaneThread()) {
    return false;
  }
  return use_ == LaneUse::kRequired || keeper_.lane() != nullptr;
}

bool LaneCalls::IsOnDevice(const LaneWork& work) const {
  const auto devices = keeper_.device_operands();
  return AnyOnDevice(devices, work.inputs) ||
         AnyOnDevice(devices, work.outputs);
}

bool LaneCalls::GoesByCall(const LaneWork& work,
                           const LaneOutcome& outcome) const {
  if (!outcome.status.ok() && IsOnDevice(work)) return false;
  // Calls may reach another server than one that drains or has ended its lane.
  return outcome.end == LaneOutcome::End::kNotCarried ||
         (absl::IsUnavailable(outcome.status) && use_ == LaneUse::kAuto);
}

LaneOutcome LaneCalls::Attempt(const LaneWork& work) {
  const std::shared_ptr<ClientLane> lane = keeper_.lane();
  LaneOutcome outcome;
  if (lane != nullptr) {
    outcome = lane->Call(work);
  } else {
    outcome.end = LaneOutcome::End::kLost;
    outcome.status = absl::UnavailableError(kNoLane);
  }
  if (outcome.end == LaneOutcome::End::kLost && keeper_.is_stopped()) {
    outcome.status = absl::CancelledError("the client was destroyed");
  }
  return outcome;
}

template <typename Result, typename Answered>
std::optional<absl::StatusOr<Result>> LaneCalls::Make(
    const LaneWork& work, const Answered& answered) {
  for (int attempt = 1;; ++attempt) {
    const LaneOutcome outcome = Attempt(work);
    if (GoesByCall(work, outcome)) return std::nullopt;
    if (outcome.status.ok()) {
      absl::StatusOr<Result> result = answered(outcome);
      if (result.ok()) result->attempts = attempt;
      return result;
    }
    EndedAttempt ended;
    ended.status = outcome.status;
    ended.retry_delay = RetryDelay(outcome.status);
    ended.number = attempt;
    ended.deadline = work.deadline;
    const auto pause = engine_.PauseAfter(std::move(ended));
    if (!pause.has_value()) return outcome.status;
    if (!engine_.Sleep(*pause)) {
      return absl::CancelledError("the client was destroyed");
    }
  }
}

std::optional<absl::StatusOr<GemmResult>> LaneCalls::Gemm(
    const GemmRequest& request) {
  if (!IsInUse()) return std::nullopt;
  const std::optional<LaneWork> work = WorkOf(request);
  if (!work.has_value()) return std::nullopt;
  auto end = Make<GemmResult>(*work, [&](const LaneOutcome& outcome) {
    return ResultOf<GemmResult>(outcome, ExpectedResult(request));
  });
  if (end.has_value()) Release(request);
  return end;
}

std::optional<absl::StatusOr<RunResult>> LaneCalls::Run(
    const RunRequest& request) {
  if (!IsInUse()) return std::nullopt;
  const std::optional<LaneWork> work = WorkOf(request);
  if (!work.has_value()) return std::nullopt;
  auto end = Make<RunResult>(*work, [&](const LaneOutcome& outcome) {
    return ResultOf<RunResult>(outcome, ExpectedOutputs(request));
  });
  if (end.has_value()) Release(request);
  return end;
}

// Way to cancel a call that was started. Thread-safe.
class LaneCalls::CancelWay {
 public:
  // The call goes by the lane, unless it goes by gRPC already.
  void SetLane(const std::shared_ptr<ClientLane>& lane, LaneSlot slot) {
    MutexLock lock(&mutex_);
    lane_ = lane;
    slot_ = slot;
    if (is_cancelled_) lane->Cancel(slot);
  }
  // It goes on by gRPC.
  void SetCall(CallHandle call) {
    MutexLock lock(&mutex_);
    call_ = std::move(call);
    if (is_cancelled_) call_.Cancel();
  }

  void Cancel() {
    MutexLock lock(&mutex_);
    is_cancelled_ = true;
    call_.Cancel();
    const std::shared_ptr<ClientLane> lane = lane_.lock();
    if (lane != nullptr) lane->Cancel(slot_);
  }

 private:
  Mutex mutex_;
  bool is_cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::weak_ptr<ClientLane> lane_ ABSL_GUARDED_BY(mutex_);
  LaneSlot slot_ ABSL_GUARDED_BY(mutex_);
  CallHandle call_ ABSL_GUARDED_BY(mutex_);  // none while it goes by the lane
};

// A call from its start until its callback has run, by the lane or by gRPC.
template <typename Request, typename Result>
struct LaneCalls::StartedCall {
  StartedCall(const Request& request,
              absl::AnyInvocable<void(absl::StatusOr<Result>)> callback,
              GoOnByCall<Request, Result> go_on)
      : request(request),
        callback(std::move(callback)),
        go_on(std::move(go_on)) {}

  void GoOn(LaneRemainder remainder) {
    way->SetCall(go_on(request, remainder, std::move(callback)));
  }

  // Copies the operands, which the caller may change from now on.
  void KeepInputs() {
    for (const auto& input : InputsOf(request)) {
      kept.insert(kept.end(), input.begin(), input.end());
    }
    PointTo(kept, &request);
  }

  void End(const LaneOutcome& outcome) {
    Release(request);
    if (!outcome.status.ok()) return callback(outcome.status);
    callback(ResultOf<Result>(outcome, ExpectedOf(request)));
  }

  Request request;
  std::vector<uint8_t> kept;
  absl::AnyInvocable<void(absl::StatusOr<Result>)> callback;
  GoOnByCall<Request, Result> go_on;
  const std::shared_ptr<CancelWay> way = std::make_shared<CancelWay>();
};

std::optional<LaneRemainder> LaneCalls::RemainderOf(const LaneWork& work,
                                                    LaneOutcome* outcome) {
  if (outcome->end == LaneOutcome::End::kLost && keeper_.is_stopped()) {
    outcome->status = absl::CancelledError("the client was destroyed");
  }
  if (GoesByCall(work, *outcome)) return LaneRemainder();
  if (IsOnDevice(work)) return std::nullopt;
  EndedAttempt ended;
  ended.status = outcome->status;
  ended.retry_delay = RetryDelay(outcome->status);
  ended.number = 1;
  ended.deadline = work.deadline;
  const auto pause = engine_.PauseAfter(std::move(ended));
  if (!pause.has_value()) return std::nullopt;
  return LaneRemainder{1, *pause};
}

template <typename Request, typename Result>
void LaneCalls::TakeOutcome(StartedCall<Request, Result>* call,
                            LaneOutcome outcome) {
  using End = LaneOutcome::End;
  const bool is_result = outcome.end == End::kAnswered && outcome.status.ok();
  if (is_result) return call->End(outcome);
  const auto remainder = RemainderOf(*WorkOf(call->request), &outcome);
  if (!remainder.has_value()) return call->End(outcome);
  // The caller's operands may be gone: the lane has a copy.
  if (!outcome.a_range.is_none() && !Lends(call->request)) {
    PointTo(outcome.a_range.bytes(), &call->request);
  }
  call->GoOn(*remainder);
}

template <typename Request, typename Result>
bool LaneCalls::TryStart(
    const std::shared_ptr<ClientLane>& lane,
    const std::shared_ptr<StartedCall<Request, Result>>& call) {
  std::optional<LaneWork> work = WorkOf(call->request);
  if (!work.has_value()) return false;
  work->lends_inputs = Lends(call->request);
  ClientLane::Done done = [this, call](LaneOutcome outcome) {
    TakeOutcome(call.get(), std::move(outcome));
  };
  const std::optional<LaneSlot> slot = lane->Start(*work, &done);
  if (slot.has_value()) call->way->SetLane(lane, *slot);
  return slot.has_value();
}

template <typename Request, typename Result>
void LaneCalls::StartOnceOpen(
    const std::shared_ptr<ClientLane>& lane,
    const std::shared_ptr<StartedCall<Request, Result>>& call) {
  const std::optional<LaneWork> work = WorkOf(call->request);
  if (!Lends(call->request) && !IsOnDevice(*work)) call->KeepInputs();
  lane->OpenLater(work->target, [this, call, weak = std::weak_ptr(lane)](
                                    const absl::Status& status) {
    const std::shared_ptr<ClientLane> lane = weak.lock();
    if (status.ok() && lane != nullptr && TryStart(lane, call)) return;
    LaneOutcome outcome;  // a call is told why in full
    outcome.status = status;
    if (lane == nullptr || lane->has_ended()) {
      outcome.end = LaneOutcome::End::kLost;
      outcome.status = absl::UnavailableError(kNoLane);
    }
    const auto remainder = RemainderOf(*WorkOf(call->request), &outcome);
    if (remainder.has_value()) return call->GoOn(*remainder);
    // Perhaps within the call that starts it.
    engine_.Fail(outcome.status, [call](CallOutcome failed) {
      LaneOutcome end;
      end.status = std::move(failed.status);
      call->End(end);
    });
  });
}

template <typename Request, typename Result>
CallHandle LaneCalls::StartOrGoOn(
    const Request& request,
    absl::AnyInvocable<void(absl::StatusOr<Result>)> callback,
    GoOnByCall<Request, Result> go_on) {
  const std::shared_ptr<ClientLane> lane = keeper_.lane();
  if (lane == nullptr && use_ == LaneUse::kRequired) {
    engine_.Fail(
        absl::UnavailableError(kNoLane),
        [request, callback = std::move(callback)](CallOutcome outcome) mutable {
          Release(request);
          callback(std::move(outcome.status));
        });
    return CallHandle();
  }
  const std::optional<LaneWork> work =
      lane == nullptr ? std::nullopt : WorkOf(request);
  if (!work.has_value()) {
    return go_on(request, LaneRemainder(), std::move(callback));
  }
  auto call = std::make_shared<StartedCall<Request, Result>>(
      request, std::move(callback), std::move(go_on));
  const std::shared_ptr<CancelWay> way = call->way;
  if (!lane->IsOpen(work->target)) {
    StartOnceOpen(lane, call);
  } else if (!TryStart(lane, call)) {
    call->GoOn(LaneRemainder());
  }
  return CallHandle([way] { way->Cancel(); });
}

CallHandle LaneCalls::Start(const GemmRequest& request, GemmCallback callback,
                            GoOnByCall<GemmRequest, GemmResult> go_on) {
  return StartOrGoOn<GemmRequest, GemmResult>(request, std::move(callback),
                                              std::move(go_on));
}

CallHandle LaneCalls::Start(const RunRequest& request, RunCallback callback,
                            GoOnByCall<RunRequest, RunResult> go_on) {
  return StartOrGoOn<RunRequest, RunResult>(request, std::move(callback),
                                            std::move(go_on));
}

}  // namespace qgemm
