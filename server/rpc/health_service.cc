// SPDX-License-Identifier: Apache-2.0

#include "server/rpc/health_service.h"

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "rpc/grpc_status.h"
#include "rpc/message_limits.h"
#include "rpc/payload_message.h"
#include "server/rpc/server_call.h"

namespace qgemm {
namespace {

// Longer names are not repeated to the client.
constexpr size_t kMaxNameRepeated = 64;

// Each costs some 13 KB, and time when its connection ends.
constexpr int kMaxClientWatches = 1024;

grpc::Status UnknownService(const std::string& name) {
  const std::string subject =
      name.size() <= kMaxNameRepeated
          ? absl::StrCat("service = \"", absl::CHexEscape(name), "\"")
          : absl::StrCat("service = a name of ", name.size(), " bytes");
  return grpc::Status(
      grpc::StatusCode::NOT_FOUND,
      absl::StrCat(subject, " is none of this server's; it has \"\", \"",
                   HealthService::kLiveness, "\", \"",
                   HealthService::kReadiness, "\" and qgemm.v1.Qgemm"));
}

}  // namespace

class HealthService::CheckCall final : public ServerCall<CheckCall> {
 public:
  CheckCall(HealthService* health, CompletionQueue* queue)
      : ServerCall(health->services_, {"Check", RpcAccess::Everybody()}, queue),
        health_(health),
        responder_(context()) {}

 private:
  friend class ServerCall<CheckCall>;

  void Await(void* tag) {
    health_->service_.RequestCheck(context(), &received_, &responder_,
                                   queue()->server_queue(),
                                   queue()->server_queue(), tag);
  }

  void AcceptNext() { health_->AcceptCheck(queue()); }

  void Deny(const absl::Status& status) {
    responder_.FinishWithError(ToGrpcStatus(status), FinishTag());
  }

  void Begin() {
    health::HealthCheckRequest request;
    const absl::Status read =
        ReadBoundedMessage(&received_, kMaxQueryBytes, &request);
    if (!read.ok()) {
      responder_.FinishWithError(ToGrpcStatus(read), FinishTag());
      return;
    }
    if (!health_->Knows(request.service())) {
      responder_.FinishWithError(UnknownService(request.service()),
                                 FinishTag());
      return;
    }
    health::HealthCheckResponse response;
    {
      MutexLock lock(&health_->mutex_);
      response.set_status(health_->StatusOf(request.service()));
    }
    responder_.Finish(WriteMessage(response), grpc::Status::OK, FinishTag());
  }

  HealthService* const health_;
  grpc::ByteBuffer received_;
  grpc::ServerAsyncResponseWriter<grpc::ByteBuffer> responder_;
};

// Sends one message or the end at a time. Guarded by the service's mutex.
class HealthService::WatchCall final
    : public ServerCall<WatchCall, WhenDone::kNotified> {
 public:
  WatchCall(HealthService* health, CompletionQueue* queue)
      : ServerCall(health->services_, {"Watch", RpcAccess::Everybody()}, queue),
        health_(health),
        writer_(context()) {}

  ~WatchCall() {
    if (entered_) {
      peer()->usage->watches.fetch_sub(1, std::memory_order_relaxed);
    }
  }

  // Sends the status if it has changed since the last message, unless one is
  // on its way; only then may the call end. The service's mutex is held, which
  // the analysis does not see for every call of a set.
  void Advance() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (writing_ || finished_) return;
    const HealthStatus status = health_->StatusOf(request_.service());
    if (told_ != status && !gone_) {
      told_ = status;
      writing_ = true;
      health::HealthCheckResponse response;
      response.set_status(status);
      writer_.Write(WriteMessage(response),
                    written_tag_.Arm(shared_from_this()));
    } else if (gone_ || health_->ending_) {
      finished_ = true;
      health_->watches_.erase(shared_from_this());
      writer_.Finish(grpc::Status(grpc::StatusCode::UNAVAILABLE,
                                  "the server is shutting down"),
                     FinishTag());
    }
  }

 private:
  friend class ServerCall<WatchCall, WhenDone::kNotified>;

  void Await(void* tag) {
    health_->service_.RequestWatch(context(), &received_, &writer_,
                                   queue()->server_queue(),
                                   queue()->server_queue(), tag);
  }

  void AcceptNext() { health_->AcceptWatch(queue()); }

  void Deny(const absl::Status& status) {
    MutexLock lock(&health_->mutex_);
    finished_ = true;
    writer_.Finish(ToGrpcStatus(status), FinishTag());
  }

  void Begin() {
    absl::Status status =
        ReadBoundedMessage(&received_, kMaxQueryBytes, &request_);
    if (status.ok()) status = Enter();
    if (!status.ok()) return Deny(status);
    MutexLock lock(&health_->mutex_);
    health_->watches_.insert(shared_from_this());
    Advance();
  }

  // Counts for the client until this goes.
  absl::Status Enter() {
    std::atomic<int>& watches = peer()->usage->watches;
    entered_ =
        watches.fetch_add(1, std::memory_order_relaxed) < kMaxClientWatches;
    if (entered_) return absl::OkStatus();
    watches.fetch_sub(1, std::memory_order_relaxed);
    return absl::ResourceExhaustedError(absl::StrCat(
        peer()->identity, " has ", kMaxClientWatches,
        " open calls of Health.Watch, and that is the limit of one client; "
        "end some of them"));
  }

  void OnWritten(bool ok) {
    MutexLock lock(&health_->mutex_);
    writing_ = false;
    gone_ = gone_ || !ok;
    Advance();
  }

  void OnDone() {
    MutexLock lock(&health_->mutex_);
    gone_ = true;
    Advance();
  }

  HealthService* const health_;
  bool entered_ = false;  // it counts for its client
  grpc::ByteBuffer received_;
  health::HealthCheckRequest request_;
  grpc::ServerAsyncWriter<grpc::ByteBuffer> writer_;
  std::optional<HealthStatus> told_;
  bool writing_ = false;
  bool gone_ = false;  // the client
  bool finished_ = false;
  CallTag<WatchCall, &WatchCall::OnWritten> written_tag_;
};

HealthService::HealthService(const CallServices& services, std::string service)
    : services_(services), service_name_(std::move(service)) {}
HealthService::~HealthService() = default;

void HealthService::Register(grpc::ServerBuilder* builder) {
  builder->RegisterService(&service_);
}

void HealthService::Accept(CompletionQueue* queue) {
  AcceptCheck(queue);
  AcceptWatch(queue);
}

void HealthService::AcceptCheck(CompletionQueue* queue) {
  std::make_shared<CheckCall>(this, queue)->Accept();
}

void HealthService::AcceptWatch(CompletionQueue* queue) {
  std::make_shared<WatchCall>(this, queue)->Accept();
}

bool HealthService::Knows(const std::string& service) const {
  return service.empty() || service == service_name_ || service == kReadiness ||
         service == kLiveness;
}

HealthStatus HealthService::StatusOf(const std::string& service) const {
  if (!Knows(service)) return health::HealthCheckResponse::SERVICE_UNKNOWN;
  return (service == kLiveness ? live_ : ready_)
             ? health::HealthCheckResponse::SERVING
             : health::HealthCheckResponse::NOT_SERVING;
}

void HealthService::Set(const Health& health) {
  MutexLock lock(&mutex_);
  live_ = health.is_live();
  ready_ = health.is_ready();
  const std::set<std::shared_ptr<WatchCall>> watches = watches_;
  for (const std::shared_ptr<WatchCall>& watch : watches) watch->Advance();
}

void HealthService::EndWatches() {
  MutexLock lock(&mutex_);
  ending_ = true;
  const std::set<std::shared_ptr<WatchCall>> watches = watches_;
  for (const std::shared_ptr<WatchCall>& watch : watches) watch->Advance();
}

}  // namespace qgemm
