// SPDX-License-Identifier: Apache-2.0

#include "server/rpc/debug_service.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "server/rpc/gemm_request_builder.h"
#include "server/rpc/operands.h"
#include "server/rpc/payload_call.h"

namespace qgemm {
namespace {

constexpr RpcAccess kDebugAccess = RpcAccess::Needs(Right::kDebug);

constexpr uint64_t kMinFreezeNanoseconds = 1'000'000;
constexpr uint64_t kMaxFreezeNanoseconds = 60'000'000'000;

// OK if the flag is set that enables the method.
absl::Status CheckEnabled(bool enabled, absl::string_view method,
                          absl::string_view flag) {
  if (enabled) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat(method,
                   " is for tests and measurements, and off; start the "
                   "server with ",
                   flag, " to enable it"));
}

absl::StatusOr<absl::Duration> FreezeTime(uint64_t duration_ns) {
  if (duration_ns < kMinFreezeNanoseconds ||
      duration_ns > kMaxFreezeNanoseconds) {
    return absl::InvalidArgumentError(
        absl::StrCat("duration_ns = ", duration_ns, " is not between ",
                     kMinFreezeNanoseconds, " (1 ms) and ",
                     kMaxFreezeNanoseconds, " (60 s)"));
  }
  return absl::Nanoseconds(static_cast<int64_t>(duration_ns));
}

absl::Status CheckEchoSizes(const v1::EchoRequest& request, int64_t a_bytes,
                            int64_t max_message_bytes) {
  if (a_bytes == 0) {
    return absl::InvalidArgumentError("a has 0 bytes; it must have at least 1");
  }
  if (request.answer_bytes() == 0) {
    return absl::InvalidArgumentError(
        "answer_bytes = 0; it must be at least 1");
  }
  const int64_t limit = MaxResultBytes(max_message_bytes);
  if (request.answer_bytes() > static_cast<uint64_t>(limit)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("answer_bytes = ", request.answer_bytes(), " is beyond ",
                     limit, ": the server sends messages of at most ",
                     max_message_bytes, " bytes (--max_message_bytes)"));
  }
  return absl::OkStatus();
}

}  // namespace

class DebugService::EchoCall final : public PayloadCall {
 public:
  EchoCall(DebugService* service, CompletionQueue* queue)
      : PayloadCall(service->services_, {"Echo", kDebugAccess}, queue),
        service_(service) {}

 private:
  void Request(const AwaitedCall& call) override {
    service_->service_.RequestEcho(call.context, call.request, call.responder,
                                   call.queue, call.queue, call.tag);
  }

  void AcceptNext() override { service_->AcceptEcho(queue()); }

  void Serve() override {
    v1::EchoRequest message;
    const absl::Status accepted = ReadRequest(&message);
    if (!accepted.ok()) return End(accepted);
    const auto c_bytes = static_cast<int64_t>(message.answer_bytes());
    absl::StatusOr<StagedOperands> operands =
        AcquireOperands(service_->backend_, payload().bytes, c_bytes);
    if (!operands.ok()) return EndRetryably(operands.status());
    TakePayload(operands->a.data());
    const absl::Duration total = Elapsed();
    v1::EchoResponse header;
    header.set_server_ns(
        absl::ToInt64Nanoseconds(std::max(total, absl::ZeroDuration())));
    Answer(header, *std::move(operands), c_bytes, total);
  }

  absl::Status ReadRequest(v1::EchoRequest* message) {
    const RpcOptions& options = service_->options_;
    RETURN_IF_ERROR(CheckEnabled(options.enable_echo, "Echo", "--enable_echo"));
    RETURN_IF_ERROR(Read(message));
    return CheckEchoSizes(*message, payload().bytes, options.max_message_bytes);
  }

  DebugService* const service_;
};

DebugService::DebugService(const CallServices& services, Backend* backend,
                           BatchScheduler* scheduler, const RpcOptions& options)
    : services_(services),
      backend_(backend),
      scheduler_(scheduler),
      options_(options),
      freeze_(services, &service_, {"Freeze", kDebugAccess},
              &AsyncQgemmDebug::RequestFreeze,
              [this](const auto& request, const Peer&, auto*) {
                return Freeze(request);
              }),
      inject_fault_(services, &service_, {"InjectFault", kDebugAccess},
                    &AsyncQgemmDebug::RequestInjectFault,
                    [this](const auto& request, const Peer&, auto*) {
                      return InjectFault(request);
                    }) {}

void DebugService::Register(grpc::ServerBuilder* builder) {
  builder->RegisterService(&service_);
}

void DebugService::Accept(CompletionQueue* queue, int echo_calls) {
  const int calls = options_.enable_echo ? echo_calls : 1;
  for (int i = 0; i < calls; ++i) AcceptEcho(queue);
  freeze_.Accept(queue);
  inject_fault_.Accept(queue);
}

void DebugService::AcceptEcho(CompletionQueue* queue) {
  std::make_shared<EchoCall>(this, queue)->Accept();
}

absl::Status DebugService::Freeze(const v1::FreezeRequest& request) const {
  RETURN_IF_ERROR(
      CheckEnabled(options_.enable_freeze, "Freeze", "--enable_freeze"));
  ASSIGN_OR_RETURN(const absl::Duration time,
                   FreezeTime(request.duration_ns()));
  scheduler_->HoldLaunches(services_.clock->Now() + time);
  return absl::OkStatus();
}

absl::Status DebugService::InjectFault(
    const v1::InjectFaultRequest& request) const {
  RETURN_IF_ERROR(
      CheckEnabled(options_.enable_faults, "InjectFault", "--enable_faults"));
  switch (request.fault()) {
    case v1::FAULT_HANG:
      return backend_->InjectFault(BackendFault::kHang);
    case v1::FAULT_LOSE_DEVICE:
      return backend_->InjectFault(BackendFault::kLoseDevice);
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("fault = ", request.fault(),
                       " is none; it must be FAULT_HANG (1) or "
                       "FAULT_LOSE_DEVICE (2)"));
  }
}

}  // namespace qgemm
