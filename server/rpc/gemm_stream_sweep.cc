// SPDX-License-Identifier: Apache-2.0
//
// A stream's progress: bytes counted, and the end of its parts that make none.
// Runs on the thread that reads the stream, between two messages or while a
// copier has one.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rpc/grpc_status.h"
#include "server/rpc/gemm_stream_call.h"
#include "server/rpc/handlers.h"

namespace qgemm {
namespace {

// The end of a request whose A has not come on.
absl::Status Late(Progress progress, const ProgressLimits& limits,
                  int64_t received_bytes, uint64_t a_bytes) {
  const std::string limit =
      progress == Progress::kIdle
          ? absl::StrCat("no fragment came for ",
                         absl::FormatDuration(limits.idle_timeout),
                         " (--idle_timeout)")
          : absl::StrCat("fragments came with less than ",
                         limits.min_bytes_per_second,
                         " bytes a second (--min_upload_bytes_per_second)");
  return absl::DeadlineExceededError(absl::StrCat(
      received_bytes, " of the ", a_bytes, " bytes of a have come, and ", limit,
      "; send the request again"));
}

}  // namespace

void GemmStreamCall::OnSweep(const SweepRound& round) {
  const absl::Status allowed = CurrentPeer().status();
  MutexLock lock(&mutex_);
  if (!allowed.ok()) Break(ToGrpcStatus(allowed));
  if (finished_) return;
  for (const QueuedAnswer& ready : ready_) {
    ++round.waiting->answers;
    round.waiting->bytes += ready.answer.c_bytes();
  }
  SweepWrite(round);
  SweepArriving(round);
}

void GemmStreamCall::SweepWrite(const SweepRound& round) {
  if (!writing_) return write_watch_.Reset();
  const ProgressLimits limits = {round.limits.idle_timeout, 0};
  if (given_up_ ||
      write_watch_.Look(messages_sent_, limits, round.now) == Progress::kFine) {
    return;
  }
  given_up_ = true;
  round.metrics->CallTimedOut("answer_idle");
  context()->TryCancel();  // the write that waits fails, and ends the call
}

void GemmStreamCall::SweepArriving(const SweepRound& round) {
  // Operands share the client's line. They may be late while we do not read,
  // a long copy's time included.
  ProgressLimits limits = round.limits;
  limits.min_bytes_per_second /= std::max<int64_t>(1, ledger_.partial());
  std::vector<std::pair<uint64_t, absl::Status>> ended;
  for (auto& [id, live] : live_) {
    if (ledger_.IsComplete(id)) continue;
    if (!reading_) {
      live.watch.Reset();
      continue;
    }
    const auto received = static_cast<int64_t>(ledger_.received_bytes(id));
    const Progress progress = live.watch.Look(received, limits, round.now);
    if (progress == Progress::kFine) continue;
    ended.emplace_back(id,
                       Late(progress, limits, received, ledger_.a_bytes(id)));
  }
  for (const auto& [id, status] : ended) {
    round.metrics->CallTimedOut("operand_idle");
    QueueError(id, status);
  }
  if (!ended.empty()) Advance();
}

void GemmStreamCall::CountBytes(Direction direction,
                                const grpc::ByteBuffer& message) const {
  CountMessage(*peer(), direction, static_cast<int64_t>(message.Length()),
               handler_->services_.metrics);
}

}  // namespace qgemm
