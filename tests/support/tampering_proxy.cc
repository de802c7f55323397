// SPDX-License-Identifier: Apache-2.0
//
// Each call is an Exchange: two reactors that copy messages in step, a read on
// one side, then its write on the other.

#include "tests/support/tampering_proxy.h"

#include <grpc/grpc.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <random>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/check.h"
#include "base/mutex.h"

namespace qgemm {
namespace {

// Chooses which answers are damaged. Thread-safe.
class Tampering {
 public:
  explicit Tampering(const TamperingOptions& options)
      : options_(options), random_(options.seed) {}

  bool Concerns(const std::string& method) const {
    return method == options_.method;
  }

  // Counts the answer and damages it if it is one of those.
  void Pass(grpc::ByteBuffer* answer) {
    if (CountAndChoose()) FlipIn(answer);
  }

  int64_t answers() const {
    MutexLock lock(&mutex_);
    return answers_;
  }
  int64_t flipped() const {
    MutexLock lock(&mutex_);
    return flipped_;
  }

 private:
  bool CountAndChoose() {
    MutexLock lock(&mutex_);
    const int64_t number = answers_++;
    if (options_.every == 0) return false;
    const int64_t place = number % options_.every;
    if (place == 0) {
      chosen_ = static_cast<int64_t>(random_() %
                                     static_cast<uint64_t>(options_.every));
    }
    if (place != chosen_) return false;
    ++flipped_;
    return true;
  }

  void FlipIn(grpc::ByteBuffer* answer) const {
    std::vector<grpc::Slice> slices;
    CHECK(answer->Dump(&slices).ok());
    std::string bytes;
    for (const grpc::Slice& slice : slices) {
      bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
    }
    CHECK(!bytes.empty());
    bytes.back() = static_cast<char>(bytes.back() ^ (1 << options_.bit));
    const grpc::Slice damaged(bytes);
    *answer = grpc::ByteBuffer(&damaged, 1);
  }

  const TamperingOptions options_;
  mutable Mutex mutex_;
  std::mt19937_64 random_ ABSL_GUARDED_BY(mutex_);
  int64_t answers_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t flipped_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t chosen_ ABSL_GUARDED_BY(mutex_) = 0;
};

// One call, from the client's (downstream) to the server's (upstream). Deletes
// itself when both have ended.
class Exchange final : public grpc::ServerGenericBidiReactor {
 public:
  Exchange(grpc::GenericStub* stub, Tampering* tampering,
           grpc::GenericCallbackServerContext* context)
      : tampering_(tampering->Concerns(context->method()) ? tampering
                                                          : nullptr),
        upstream_(this) {
    upstream_context_.set_deadline(context->deadline());
    stub->PrepareBidiStreamingCall(&upstream_context_, context->method(), {},
                                   &upstream_);
    upstream_.AddHold();
    upstream_.StartCall();
    upstream_.StartRead(&answer_);
    StartRead(&request_);
  }

 private:
  class Upstream final
      : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
   public:
    explicit Upstream(Exchange* exchange) : exchange_(exchange) {}

   private:
    void OnReadDone(bool ok) override { exchange_->OnAnswer(ok); }
    void OnWriteDone(bool ok) override {
      if (ok) exchange_->StartRead(&exchange_->request_);
    }
    // Comes after the last answer was written, and not before the reads of
    // both sides have ended or cannot start any more.
    void OnDone(const grpc::Status& status) override {
      exchange_->Finish(status);
    }

    Exchange* const exchange_;
  };

  // A request, or the end of them.
  void OnReadDone(bool ok) override {
    MutexLock lock(&mutex_);
    if (answers_ended_) return;
    if (ok) {
      upstream_.StartWrite(&request_);
    } else {
      upstream_.StartWritesDone();
    }
  }

  void OnAnswer(bool ok) {
    if (ok) {
      if (tampering_ != nullptr) tampering_->Pass(&answer_);
      StartWrite(&answer_);
    } else {
      EndAnswers();
    }
  }

  void OnWriteDone(bool ok) override {
    if (ok) {
      upstream_.StartRead(&answer_);
    } else {  // the client has gone
      upstream_context_.TryCancel();
      EndAnswers();
    }
  }

  // The upstream's status is all that is awaited; it may end from here on.
  void EndAnswers() {
    MutexLock lock(&mutex_);
    answers_ended_ = true;
    upstream_.RemoveHold();
  }

  void OnCancel() override { upstream_context_.TryCancel(); }
  void OnDone() override { delete this; }

  Tampering* const tampering_;  // null if not concerned
  grpc::ClientContext upstream_context_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer answer_;
  Upstream upstream_;
  Mutex mutex_;
  bool answers_ended_ ABSL_GUARDED_BY(mutex_) = false;
};

std::shared_ptr<grpc::Channel> ConnectTo(const std::string& server) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(server, grpc::InsecureChannelCredentials(),
                                   arguments);
}

}  // namespace

class TamperingProxy::Service final : public grpc::CallbackGenericService {
 public:
  Service(const std::string& server, const TamperingOptions& options)
      : stub_(ConnectTo(server)), tampering_(options) {
    // Never given back: gRPC's last shutdown would wait for a thread that polls
    // for up to 10 s after a write that had to wait.
    grpc_init();
    CHECK(mkdtemp(folder_) != nullptr);
    address_ = "unix:" + SocketPath();
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address_, grpc::InsecureServerCredentials());
    builder.SetMaxReceiveMessageSize(-1);
    builder.SetMaxSendMessageSize(-1);
    builder.RegisterCallbackGenericService(this);
    server_ = builder.BuildAndStart();
    CHECK(server_ != nullptr);
  }

  ~Service() override {
    Die();
    unlink(SocketPath().c_str());
    rmdir(folder_);
  }

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    return new Exchange(&stub_, &tampering_, context);
  }

  void Die() { server_->Shutdown(std::chrono::system_clock::now()); }

  const std::string& address() const { return address_; }
  const Tampering& tampering() const { return tampering_; }

 private:
  std::string SocketPath() const { return std::string(folder_) + "/socket"; }

  char folder_[sizeof("/tmp/qgemm_XXXXXX")] = "/tmp/qgemm_XXXXXX";
  std::string address_;
  grpc::GenericStub stub_;
  Tampering tampering_;
  std::unique_ptr<grpc::Server> server_;
};

TamperingProxy::TamperingProxy(const std::string& server,
                               const TamperingOptions& options)
    : service_(std::make_unique<Service>(server, options)) {}
TamperingProxy::~TamperingProxy() = default;
const std::string& TamperingProxy::address() const {
  return service_->address();
}
int64_t TamperingProxy::answers() const {
  return service_->tampering().answers();
}
int64_t TamperingProxy::flipped() const {
  return service_->tampering().flipped();
}
void TamperingProxy::Die() { service_->Die(); }

}  // namespace qgemm
