// SPDX-License-Identifier: Apache-2.0

#include "client/lane_calls.h"

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "client/gemm_wire.h"
#include "client/run_wire.h"
#include "kernels/matrix/types.h"

namespace qgemm {
namespace {

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

// Entries count rows in 32 bits.
bool FitsEntry(int64_t m) { return m <= int64_t{UINT32_MAX}; }

}  // namespace

bool LaneCalls::IsInUse() const {
  if (use_ == LaneUse::kOff || engine_.OnEngineThread()) return false;
  return use_ == LaneUse::kRequired || keeper_.lane() != nullptr;
}

LaneOutcome LaneCalls::Attempt(const LaneWork& work) {
  const std::shared_ptr<ClientLane> lane = keeper_.lane();
  LaneOutcome outcome;
  if (lane != nullptr) {
    outcome = lane->Call(work);
  } else {
    outcome.end = LaneOutcome::End::kLost;
    outcome.status = absl::UnavailableError("the server has ended the lane");
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
    if (outcome.end == LaneOutcome::End::kNotCarried) return std::nullopt;
    if (outcome.status.ok()) {
      absl::StatusOr<Result> result = answered(outcome);
      if (result.ok()) result->attempts = attempt;
      return result;
    }
    // A draining server, or a lane that ended: calls may reach another.
    if (absl::IsUnavailable(outcome.status) && use_ == LaneUse::kAuto) {
      return std::nullopt;
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
  // A call says what is wrong with a request.
  if (!CheckOperand(request).ok() || !FitsEntry(request.m)) {
    return std::nullopt;
  }
  LaneWork work;
  work.target = {lane::HandleKind::kWeights, request.weights,
                 request.client_id};
  work.entry.m = static_cast<uint32_t>(request.m);
  work.entry.a_type = static_cast<uint8_t>(ToWire(request.a_type));
  work.entry.c_type = static_cast<uint8_t>(ToWire(request.result_type()));
  work.entry.mode = static_cast<uint8_t>(ToWire(request.mode));
  if (HasRounding(request)) {
    work.entry.rounding = static_cast<uint8_t>(ToWire(request.rounding));
  }
  work.entry.priority = static_cast<uint8_t>(ToWire(request.priority));
  work.a_unit_bytes = SizeOf(request.a_type);
  work.c_unit_bytes = SizeOf(request.result_type());
  work.inputs = absl::MakeConstSpan(&request.a, 1);
  if (!request.c.empty()) work.outputs = absl::MakeConstSpan(&request.c, 1);
  work.deadline = request.deadline;
  auto end = Make<GemmResult>(work, [&](const LaneOutcome& outcome) {
    return ResultOf<GemmResult>(outcome, ExpectedResult(request));
  });
  if (end.has_value() && request.a_released != nullptr) request.a_released();
  return end;
}

std::optional<absl::StatusOr<RunResult>> LaneCalls::Run(
    const RunRequest& request) {
  if (!IsInUse()) return std::nullopt;
  // A completion has no times of ops.
  if (request.time_ops || !CheckInputs(request).ok() || !FitsEntry(request.m)) {
    return std::nullopt;
  }
  LaneWork work;
  work.target = {lane::HandleKind::kProgram, request.program,
                 request.client_id};
  work.entry.m = static_cast<uint32_t>(request.m);
  work.entry.priority = static_cast<uint8_t>(ToWire(request.priority));
  work.inputs = request.inputs;
  work.outputs = request.outputs;
  work.deadline = request.deadline;
  auto end = Make<RunResult>(work, [&](const LaneOutcome& outcome) {
    return ResultOf<RunResult>(outcome, ExpectedOutputs(request));
  });
  if (end.has_value() && request.inputs_released != nullptr) {
    request.inputs_released();
  }
  return end;
}

}  // namespace qgemm
