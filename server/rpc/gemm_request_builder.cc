// SPDX-License-Identifier: Apache-2.0
//
// Sizes are checked in 64 bits before any of them is used.

#include "server/rpc/gemm_request_builder.h"

#include <limits>
#include <optional>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "base/checked_math.h"
#include "base/status_macros.h"
#include "server/rpc/translate.h"

namespace qgemm {
namespace {

// An answer's bytes besides c: seven timings of at most 11 bytes, and the tags
// and lengths of both fields (at most 13 bytes); rounded up.
constexpr int64_t kAnswerOverheadBytes = 128;
// The same of the times of a program's ops: 64 of at most 10 bytes, rounded up.
constexpr int64_t kOpTimesBytes = 1024;

// The largest int64 if the product does not fit.
int64_t CappedMul(int64_t a, int64_t b) {
  return CheckedMul(a, b).value_or(std::numeric_limits<int64_t>::max());
}

// rows * columns elements in bytes, or the largest int64.
int64_t OperandBytes(int64_t rows, int64_t columns, FloatType type) {
  return CappedMul(CappedMul(rows, columns), SizeOf(type));
}

absl::StatusOr<int64_t> CheckRows(uint64_t m, int64_t max_rows) {
  if (m == 0) {
    return absl::InvalidArgumentError("m = 0; it must be at least 1");
  }
  if (m > static_cast<uint64_t>(max_rows)) {
    return absl::InvalidArgumentError(
        absl::StrCat("m = ", m, " is beyond the limit of ", max_rows,
                     " rows a request; split the rows over several requests"));
  }
  return static_cast<int64_t>(m);
}

}  // namespace

int64_t MaxResultBytes(int64_t max_message_bytes) {
  return max_message_bytes - kAnswerOverheadBytes;
}

ResultLimit MessageResultLimit(int64_t max_message_bytes) {
  return {MaxResultBytes(max_message_bytes), "--max_message_bytes",
          max_message_bytes};
}

ResultLimit StreamResultLimit(int64_t max_stream_operand_bytes) {
  return {max_stream_operand_bytes, "--max_stream_operand_bytes",
          max_stream_operand_bytes};
}

absl::StatusOr<GemmSizes> CheckGemmSizes(const GemmShape& shape,
                                         const GemmLimits& limits) {
  GemmSizes sizes;
  ASSIGN_OR_RETURN(sizes.m, CheckRows(shape.m, limits.max_batch_rows));
  const MatmulSignature& signature = shape.signature;
  sizes.a_bytes = OperandBytes(sizes.m, shape.k, signature.a_type);
  if (sizes.a_bytes != shape.a_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a has ", shape.a_bytes, " bytes; m = ", sizes.m, " rows of k = ",
        shape.k, " ", Name(signature.a_type), " have ", sizes.a_bytes));
  }
  sizes.c_bytes = OperandBytes(sizes.m, shape.n, signature.c_type);
  const ResultLimit& limit = limits.result;
  if (sizes.c_bytes > limit.c_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the answer would have ", sizes.c_bytes, " bytes (m = ", sizes.m,
        ", n = ", shape.n, ", ", Name(signature.c_type), ") and the limit is ",
        limit.c_bytes, " (", limit.flag, " = ", limit.flag_bytes,
        "); split the rows over several requests"));
  }
  return sizes;
}

absl::StatusOr<GemmSizes> CheckRunSizes(uint64_t m, int64_t a_bytes,
                                        const CheckedProgram& program,
                                        const GemmLimits& limits) {
  GemmSizes sizes;
  ASSIGN_OR_RETURN(sizes.m, CheckRows(m, limits.max_batch_rows));
  sizes.a_bytes = CappedMul(sizes.m, program.input_row_bytes());
  if (sizes.a_bytes != a_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "inputs has ", a_bytes, " bytes; m = ", sizes.m, " rows of ",
        program.program().inputs.size(), " inputs with ",
        program.input_row_bytes(), " bytes a row have ", sizes.a_bytes));
  }
  sizes.c_bytes = CappedMul(sizes.m, program.output_row_bytes());
  const ResultLimit& limit = limits.result;
  if (sizes.c_bytes > limit.c_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the answer would have ", sizes.c_bytes, " bytes (m = ", sizes.m, ", ",
        program.output_row_bytes(), " bytes a row) and the limit is ",
        limit.c_bytes, " (", limit.flag, " = ", limit.flag_bytes,
        "); split the rows over several requests"));
  }
  return sizes;
}

absl::Status CheckQueueHolds(const GemmSizes& sizes, int64_t max_queued_bytes) {
  if (sizes.a_bytes <= max_queued_bytes - sizes.c_bytes) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "the operands have ", sizes.a_bytes, " and ", sizes.c_bytes,
      " bytes, together more than the queue's ", max_queued_bytes,
      " (--max_queued_bytes); split the rows over several requests"));
}

absl::Status GemmRequestBuilder::CheckRoom() const {
  QueueDemand demand;
  demand.identity = request_->identity;
  demand.client = request_->client;
  demand.rows = sizes_.m;
  demand.operand_bytes = sizes_.a_bytes + sizes_.c_bytes;
  demand.quota = request_->quota;
  const absl::Status room = services_->scheduler->CheckRoom(demand);
  if (!room.ok()) request_->traffic.RequestDropped();
  return room;
}

absl::Status GemmRequestBuilder::AcquireA() {
  ASSIGN_OR_RETURN(request_->a,
                   services_->backend->AcquireStaging(sizes_.a_bytes));
  return absl::OkStatus();
}

absl::Status GemmRequestBuilder::AcquireC() {
  ASSIGN_OR_RETURN(request_->c,
                   services_->backend->AcquireStaging(sizes_.c_bytes));
  return absl::OkStatus();
}

void GemmRequestBuilder::SetOperands(StagingLease a, StagingLease c) {
  request_->a = std::move(a);
  request_->c = std::move(c);
}

void GemmRequestBuilder::SetCaller(GemmCaller caller,
                                   AdmittedRequest::Done done) {
  request_->arrival = caller.arrival;
  request_->deadline = caller.deadline;
  request_->cancelled = std::move(caller.cancelled);
  request_->completion_executor = caller.completion_executor;
  request_->may_wait = caller.may_wait;
  request_->done = std::move(done);
}

void GemmRequestBuilder::Enqueue() && {
  if (is_parked()) return services_->parked->Park(std::move(request_));
  services_->scheduler->Enqueue(std::move(request_));
}

void GemmRequestBuilder::EnqueueAll(absl::Span<GemmRequestBuilder> builders) {
  absl::InlinedVector<std::unique_ptr<AdmittedRequest>, 16> ready;
  for (GemmRequestBuilder& builder : builders) {
    if (builder.is_parked()) {
      std::move(builder).Enqueue();
    } else {
      ready.push_back(std::move(builder.request_));
    }
  }
  if (ready.empty()) return;
  builders.front().services_->scheduler->EnqueueAll(absl::MakeSpan(ready));
}

template <typename Message>
absl::Status GemmRequestBuilder::SetClient(const Message& message,
                                           const Peer& peer) {
  ASSIGN_OR_RETURN(request_->priority, ToPriority(message.priority()));
  RETURN_IF_ERROR(CheckClientId(message.client_id()));
  request_->identity = peer.identity;
  if (peer.principal != nullptr) {
    const Quota& quota = peer.principal->quota;
    request_->quota = {quota.queued_rows, quota.queued_bytes};
  }
  request_->client =
      message.client_id().empty() ? peer.address : message.client_id();
  return absl::OkStatus();
}

absl::StatusOr<GemmRequestBuilder> ParseGemm(
    const GemmServices& services, const v1::GemmRequest& message,
    int64_t a_bytes, const ResultLimit& result_limit, const Peer& peer,
    std::unique_ptr<AdmittedRequest> blank) {
  GemmRequestBuilder builder(services, std::move(blank));
  AdmittedRequest& request = *builder.request_;
  ASSIGN_OR_RETURN(request.signature, ToSignature(message));
  RETURN_IF_ERROR(builder.SetClient(message, peer));
  ASSIGN_OR_RETURN(request.layer, services.store->FindToUse(
                                      peer.principal.get(), message.weights()));
  request.weights = request.layer->resident;
  request.traffic = {request.layer->traffic, peer.usage->traffic};
  GemmShape shape;
  shape.m = message.m();
  shape.n = request.layer->spec.n;
  shape.k = request.layer->spec.k;
  shape.a_bytes = a_bytes;
  shape.signature = request.signature;
  ASSIGN_OR_RETURN(
      builder.sizes_,
      CheckGemmSizes(
          shape, {result_limit, services.backend->limits().max_batch_rows}));
  if (request.weights != nullptr) {
    RETURN_IF_ERROR(
        services.backend->CheckSupport(*request.weights, request.signature));
  }
  request.m = builder.sizes_.m;
  return builder;
}

absl::StatusOr<GemmRequestBuilder> ParseRun(
    const GemmServices& services, const v1::RunRequest& message,
    int64_t a_bytes, const ResultLimit& result_limit, const Peer& peer,
    std::unique_ptr<AdmittedRequest> blank) {
  GemmRequestBuilder builder(services, std::move(blank));
  AdmittedRequest& request = *builder.request_;
  RETURN_IF_ERROR(builder.SetClient(message, peer));
  ASSIGN_OR_RETURN(
      const auto found,
      services.programs->Find(peer.principal.get(), message.program()));
  request.program = found->compiled;
  request.time_ops = message.time_ops();
  request.traffic = {nullptr, peer.usage->traffic};
  ResultLimit outputs_limit = result_limit;
  if (request.time_ops) outputs_limit.c_bytes -= kOpTimesBytes;
  ASSIGN_OR_RETURN(
      builder.sizes_,
      CheckRunSizes(
          message.m(), a_bytes, request.program->program(),
          {outputs_limit, services.backend->limits().max_batch_rows}));
  request.m = builder.sizes_.m;
  return builder;
}

}  // namespace qgemm
