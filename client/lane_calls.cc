// SPDX-License-Identifier: Apache-2.0

#include "client/lane_calls.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "client/device_operands.h"
#include "client/gemm_wire.h"
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

LaneOutcome LostLane() {
  LaneOutcome outcome;
  outcome.end = LaneOutcome::End::kLost;
  outcome.status = absl::UnavailableError(kNoLane);
  return outcome;
}

// A call for the first who takes it. Thread-safe.
template <typename Call>
class Waiting {
 public:
  explicit Waiting(std::shared_ptr<Call> call) : call_(std::move(call)) {}

  // Null: another has it.
  std::shared_ptr<Call> Take() {
    MutexLock lock(&mutex_);
    return std::exchange(call_, nullptr);
  }

 private:
  Mutex mutex_;
  std::shared_ptr<Call> call_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

bool LaneCalls::MayWait() const {
  return use_ != LaneUse::kOff && !engine_.OnEngineThread() &&
         !keeper_.OnLaneThread();
}

bool LaneCalls::NeedsLane(const LaneWork& work) const {
  return use_ == LaneUse::kRequired || (IsOnDevice(work) && keeper_.is_kept());
}

bool LaneCalls::IsInUse(const LaneWork& work) const {
  return keeper_.lane() != nullptr || NeedsLane(work);
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

bool LaneCalls::MayFitAnew(const LaneWork& work,
                           const LaneOutcome& outcome) const {
  return outcome.end == LaneOutcome::End::kNotCarried &&
         absl::IsInvalidArgument(outcome.status) && IsOnDevice(work);
}

LaneOutcome LaneCalls::Attempt(const LaneWork& work) const {
  const std::shared_ptr<ClientLane> lane = keeper_.lane();
  LaneOutcome outcome = lane == nullptr ? LostLane() : lane->Call(work);
  if (MayFitAnew(work, outcome)) outcome = lane->Call(work);
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
  if (!MayWait()) return std::nullopt;
  const std::optional<LaneWork> work = WorkOf(request);
  if (!work.has_value() || !IsInUse(*work)) return std::nullopt;
  auto end = Make<GemmResult>(*work, [&](const LaneOutcome& outcome) {
    return ResultOf<GemmResult>(outcome, ExpectedResult(request));
  });
  if (end.has_value()) Release(request);
  return end;
}

std::optional<absl::StatusOr<RunResult>> LaneCalls::Run(
    const RunRequest& request) {
  if (!MayWait()) return std::nullopt;
  const std::optional<LaneWork> work = WorkOf(request);
  if (!work.has_value() || !IsInUse(*work)) return std::nullopt;
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
    if (!outcome.status.ok()) return Fail(outcome.status);
    Release(request);
    callback(ResultOf<Result>(outcome, ExpectedOf(request)));
  }

  void Fail(absl::Status status) {
    Release(request);
    callback(std::move(status));
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
void LaneCalls::TakeRefusal(
    const std::shared_ptr<StartedCall<Request, Result>>& call,
    LaneOutcome outcome) {
  const auto remainder = RemainderOf(*WorkOf(call->request), &outcome);
  if (remainder.has_value()) return call->GoOn(*remainder);
  Fail(call, outcome.status);  // perhaps within the call that starts it
}

template <typename Request, typename Result>
void LaneCalls::Fail(const std::shared_ptr<StartedCall<Request, Result>>& call,
                     const absl::Status& status) {
  engine_.Fail(status, [call](CallOutcome outcome) {
    call->Fail(std::move(outcome.status));
  });
}

template <typename Request, typename Result>
std::optional<LaneOutcome> LaneCalls::TryStart(
    const std::shared_ptr<ClientLane>& lane,
    const std::shared_ptr<StartedCall<Request, Result>>& call) {
  LaneWork work = *WorkOf(call->request);
  work.lends_inputs = Lends(call->request);
  ClientLane::Done done = [this, call](LaneOutcome outcome) {
    TakeOutcome(call.get(), std::move(outcome));
  };
  auto started = lane->Start(work, &done);
  if (auto* refusal = std::get_if<LaneOutcome>(&started)) {
    return std::move(*refusal);
  }
  call->way->SetLane(lane, std::get<LaneSlot>(started));
  return std::nullopt;
}

template <typename Request, typename Result>
void LaneCalls::StartOnceOpen(
    const std::shared_ptr<ClientLane>& lane,
    const std::shared_ptr<StartedCall<Request, Result>>& call) {
  const LaneWork work = *WorkOf(call->request);
  const bool is_readable = !AnyOnDevice(keeper_.device_operands(), work.inputs);
  if (!Lends(call->request) && is_readable) call->KeepInputs();
  // Emptied when the call ends, as the lane may keep it for longer.
  const auto waiting =
      std::make_shared<Waiting<StartedCall<Request, Result>>>(call);
  const auto limit = engine_.FailAfter(
      std::max(absl::ZeroDuration(), work.deadline - absl::Now()),
      absl::DeadlineExceededError(
          "the call's deadline passed while the lane opened what it names"),
      [waiting](CallOutcome outcome) {
        const auto call = waiting->Take();
        if (call != nullptr) call->Fail(std::move(outcome.status));
      });
  call->way->SetCall(CallHandle([limit] { CallEngine::Cancel(limit); }));
  lane->OpenLater(
      work.target, [this, waiting, limit,
                    weak = std::weak_ptr(lane)](const absl::Status& status) {
        const auto call = waiting->Take();
        if (call == nullptr) return;
        CallEngine::Cancel(limit);
        const std::shared_ptr<ClientLane> lane = weak.lock();
        if (lane == nullptr || lane->has_ended() || keeper_.is_stopped()) {
          return TakeRefusal(call, LostLane());
        }
        std::optional<LaneOutcome> refusal;
        if (status.ok()) {
          refusal = TryStart(lane, call);
        } else {
          refusal.emplace().status = status;
        }
        if (refusal.has_value()) TakeRefusal(call, *std::move(refusal));
      });
}

template <typename Request, typename Result>
void LaneCalls::StartOn(
    const std::shared_ptr<ClientLane>& lane,
    const std::shared_ptr<StartedCall<Request, Result>>& call) {
  const LaneWork work = *WorkOf(call->request);
  if (lane->IsOpen(work.target)) {
    std::optional<LaneOutcome> refusal = TryStart(lane, call);
    if (!refusal.has_value()) return;
    if (!MayFitAnew(work, *refusal)) {
      return TakeRefusal(call, *std::move(refusal));
    }
  }
  StartOnceOpen(lane, call);
}

template <typename Request, typename Result>
CallHandle LaneCalls::StartOrGoOn(
    const Request& request,
    absl::AnyInvocable<void(absl::StatusOr<Result>)> callback,
    GoOnByCall<Request, Result> go_on) {
  const std::shared_ptr<ClientLane> lane = keeper_.lane();
  const std::optional<LaneWork> work = WorkOf(request);
  if (!work.has_value() || (lane == nullptr && !NeedsLane(*work))) {
    return go_on(request, LaneRemainder(), std::move(callback));
  }
  auto call = std::make_shared<StartedCall<Request, Result>>(
      request, std::move(callback), std::move(go_on));
  const std::shared_ptr<CancelWay> way = call->way;
  if (lane == nullptr) {
    Fail(call, absl::UnavailableError(kNoLane));
  } else {
    StartOn(lane, call);
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
