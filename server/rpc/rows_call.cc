// SPDX-License-Identifier: Apache-2.0

#include "server/rpc/rows_call.h"

#include <utility>

#include "rpc/grpc_status.h"
#include "server/rpc/operand_copiers.h"
#include "server/rpc/request_log.h"

namespace qgemm {
namespace {

// An answer of this size is sent on a thread of its own, for the reason of a
// copy's.
constexpr int64_t kLongAnswerBytes = kLongCopyBytes;

}  // namespace

void RowsCall::Serve() {
  const absl::Status read = Read(message());
  if (!read.ok()) return End(read);
  absl::StatusOr<GemmRequestBuilder> builder = Parse(payload().bytes, *peer());
  if (!builder.ok()) return End(builder.status());
  // Before the copy, which an overloaded server has no time for.
  const absl::Status room = builder->CheckRoom();
  if (!room.ok()) return EndRetryably(room);
  const GemmSizes& sizes = builder->sizes();
  absl::StatusOr<ClientCharge> charge =
      ClientCharge::Take(peer(), sizes.a_bytes + sizes.c_bytes,
                         StagingShare(gemm_.max_client_staging_bytes));
  if (!charge.ok()) return End(charge.status());
  charge_ = *std::move(charge);
  if (sizes.a_bytes < kLongCopyBytes ||
      gemm_.copiers->waiting() >= kMostWaitingCopies) {
    return StageAndEnqueue(*std::move(builder));
  }
  gemm_.copiers->Submit([self = shared_from_this(), this,
                         parsed_builder = *std::move(builder)]() mutable {
    StageAndEnqueue(std::move(parsed_builder));
  });
}

void RowsCall::StageAndEnqueue(GemmRequestBuilder builder) {
  absl::Status acquired = builder.AcquireA();
  if (acquired.ok()) acquired = builder.AcquireC();
  if (!acquired.ok()) {
    charge_ = ClientCharge();
    return EndRetryably(acquired);
  }
  TakePayload(builder.a());
  const int64_t c_bytes = builder.sizes().c_bytes;
  builder.SetCaller(Caller(c_bytes),
                    [self = shared_from_this(), this, c_bytes](
                        const absl::Status& status, const GemmTimings& timings,
                        std::unique_ptr<AdmittedRequest> ended) {
                      OnComputed(status, timings, std::move(ended), c_bytes);
                    });
  std::move(builder).Enqueue();
}

GemmCaller RowsCall::Caller(int64_t c_bytes) {
  GemmCaller caller;
  caller.arrival = arrival();
  caller.deadline = DeadlineOf(*context(), services_.clock->Now());
  caller.cancelled = cancelled_;
  caller.completion_executor = c_bytes < kLongAnswerBytes
                                   ? static_cast<TaskRunner*>(queue())
                                   : gemm_.answer_executor;
  return caller;
}

void RowsCall::OnComputed(const absl::Status& status,
                          const GemmTimings& timings,
                          std::unique_ptr<AdmittedRequest> ended,
                          int64_t c_bytes) {
  StagedOperands operands = {std::move(ended->a), std::move(ended->c),
                             std::move(charge_)};
  const absl::Duration total = Elapsed();
  if (status.ok() && total >= services_.slow_request) {
    LogSlowRequest({method_, *ended, timings, total}, *gemm_.store);
  }
  // Releases the weights or the program before the client can see the answer:
  // it may unload them then.
  ended.reset();
  if (!status.ok()) {
    operands = StagedOperands();
    return EndRetryably(status);
  }
  AnswerRows(timings, total, std::move(operands), c_bytes);
}

}  // namespace qgemm
