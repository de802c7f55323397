// SPDX-License-Identifier: Apache-2.0
//
// A call object for each place, used again for each of its requests.

#include "loadtest/engine/grpc_transport.h"

#include <grpcpp/client_context.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/generic/generic_stub.h>

#include <atomic>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "client/channels.h"
#include "client/gemm_wire.h"
#include "loadtest/engine/cuttable_socket.h"
#include "rpc/completion_queue.h"
#include "rpc/grpc_status.h"

namespace qgemm {
namespace {

// One connection, for as long as it lasts.
struct Connection {
  explicit Connection(std::shared_ptr<grpc::Channel> carrier)
      : channel(std::move(carrier)), stub(channel) {}

  const std::shared_ptr<grpc::Channel> channel;
  grpc::GenericStub stub;
  std::optional<CuttableSocket> socket;  // if it can be cut
  std::atomic<bool> cut{false};
};

using ConnectionPtr = std::shared_ptr<Connection>;

absl::StatusOr<ConnectionPtr> ConnectCuttable(
    const GrpcTransportOptions& options) {
  ASSIGN_OR_RETURN(CuttableSocket socket,
                   CuttableSocket::Connect(options.target));
  ASSIGN_OR_RETURN(const int descriptor, socket.Duplicate());
  auto connection =
      std::make_shared<Connection>(grpc::CreateCustomInsecureChannelFromFd(
          options.target, descriptor,
          ChannelArgumentsFor(options.max_message_bytes)));
  connection->socket.emplace(std::move(socket));
  return connection;
}

absl::StatusOr<std::vector<ConnectionPtr>> ConnectAll(
    const GrpcTransportOptions& options) {
  RETURN_IF_ERROR(CheckTarget(options.target));
  std::vector<ConnectionPtr> connections;
  if (options.connections == Connections::kCuttable) {
    for (int i = 0; i < options.channels; ++i) {
      ASSIGN_OR_RETURN(ConnectionPtr connection, ConnectCuttable(options));
      connections.push_back(std::move(connection));
    }
    return connections;
  }
  const Channels channels = CreateChannels(options.target, options.channels,
                                           options.max_message_bytes);
  if (!WaitForChannels(channels, absl::Now() + options.connect_timeout)) {
    return absl::UnavailableError(
        absl::StrCat("connect to ", options.target, ": no connection within ",
                     absl::FormatDuration(options.connect_timeout)));
  }
  for (const auto& channel : channels) {
    connections.push_back(std::make_shared<Connection>(channel));
  }
  return connections;
}

class GrpcTransport final : public Transport {
 public:
  GrpcTransport(const GrpcTransportOptions& options, const MessageSet* messages,
                std::vector<ConnectionPtr> connections, RequestSink* sink)
      : options_(options),
        messages_(messages),
        sink_(sink),
        connections_(std::move(connections)) {
    loop_.Start();
  }

  ~GrpcTransport() override { loop_.ShutDown(); }

  // `name` tells the transport's clients from those of others.
  void AddPlaces(int places, const std::string& name) {
    for (int i = 0; i < places; ++i) {
      calls_.push_back(std::make_unique<Call>(this, i));
      if (name.empty()) continue;
      calls_.back()->SetClientId(absl::StrCat(name, "-", i));
    }
  }

  void Start(int place, int message, absl::Duration timeout) override {
    calls_[place]->Start(message, timeout);
  }

  void Cancel(int place) override { calls_[place]->Cancel(); }

  absl::Status Disconnect() override;

 private:
  class Call final : public CompletionTag {
   public:
    Call(GrpcTransport* transport, int place)
        : transport_(transport), place_(place) {}

    // Before the first Start.
    void SetClientId(const std::string& client_id) {
      client_id_ = ClientIdToWire(client_id);
    }

    void Start(int message, absl::Duration timeout);
    void Cancel();
    void Complete(bool ok) override;

   private:
    // Frees the place for its next request; what this one ended with.
    void TakeEnd(EndedRequest* end, grpc::ByteBuffer* response);

    grpc::ByteBuffer WithClientId(const grpc::ByteBuffer& message) const;

    GrpcTransport* const transport_;
    const int place_;
    std::optional<grpc::Slice> client_id_;
    Mutex mutex_;
    bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
    ConnectionPtr connection_ ABSL_GUARDED_BY(mutex_);
    std::optional<grpc::ClientContext> context_ ABSL_GUARDED_BY(mutex_);
    absl::Time deadline_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
    std::unique_ptr<grpc::ClientAsyncResponseReader<grpc::ByteBuffer>> reader_
        ABSL_GUARDED_BY(mutex_);
    grpc::ByteBuffer response_;
    grpc::Status status_;
  };

  ConnectionPtr ConnectionOf(int place) {
    MutexLock lock(&mutex_);
    return connections_[place % connections_.size()];
  }

  const GrpcTransportOptions options_;
  const MessageSet* const messages_;
  RequestSink* const sink_;
  AnswerView answer_;  // of the loop's thread
  std::vector<std::unique_ptr<Call>> calls_;
  Mutex mutex_;
  std::vector<ConnectionPtr> connections_ ABSL_GUARDED_BY(mutex_);
  size_t next_cut_ ABSL_GUARDED_BY(mutex_) = 0;
  CompletionQueue loop_;
};

void GrpcTransport::Call::Start(int message, absl::Duration timeout) {
  MutexLock lock(&mutex_);
  connection_ = transport_->ConnectionOf(place_);
  context_.emplace();
  deadline_ = absl::InfiniteFuture();
  if (timeout < absl::InfiniteDuration()) deadline_ = absl::Now() + timeout;
  SetContextDeadline(deadline_, &*context_);
  const MessageSet& messages = *transport_->messages_;
  reader_ = connection_->stub.PrepareUnaryCall(
      &*context_, messages.method(message),
      WithClientId(messages.message(message)), transport_->loop_.queue());
  reader_->StartCall();
  reader_->Finish(&response_, &status_, Publish());
}

// Slices are shared, not copied.
grpc::ByteBuffer GrpcTransport::Call::WithClientId(
    const grpc::ByteBuffer& message) const {
  if (!client_id_.has_value()) return message;
  std::vector<grpc::Slice> slices;
  // Fails for compressed messages alone.
  (void)message.Dump(&slices);
  slices.push_back(*client_id_);
  return grpc::ByteBuffer(slices.data(), slices.size());
}

void GrpcTransport::Call::Cancel() {
  MutexLock lock(&mutex_);
  if (!context_.has_value()) return;
  cancelled_ = true;
  context_->TryCancel();
}

void GrpcTransport::Call::TakeEnd(EndedRequest* end,
                                  grpc::ByteBuffer* response) {
  MutexLock lock(&mutex_);
  const bool ours =
      cancelled_ && status_.error_code() == grpc::StatusCode::CANCELLED;
  end->status = ours ? absl::CancelledError() : ToAbslStatus(status_);
  if (end->status.ok() && !response_.Valid()) {
    end->status = LostAnswer(cancelled_, absl::Now() >= deadline_);
  }
  end->cut = !end->status.ok() && connection_->cut.load();
  response->Swap(&response_);
  response_.Clear();
  reader_.reset();
  context_.reset();
  connection_.reset();
  cancelled_ = false;
}

void GrpcTransport::Call::Complete(bool) {
  EndedRequest end;
  grpc::ByteBuffer response;  // outlives the place, which is used again below
  TakeEnd(&end, &response);
  AnswerView& answer = transport_->answer_;
  if (end.status.ok()) end.status = ReadAnswer(&response, &answer);
  if (end.status.ok()) {
    end.timings = answer.timings;
    end.c = answer.c;
  }
  transport_->sink_->OnEnd(place_, end);
}

absl::Status GrpcTransport::Disconnect() {
  if (options_.connections != Connections::kCuttable) {
    return absl::FailedPreconditionError(
        "the transport was opened without connections that can be cut");
  }
  ASSIGN_OR_RETURN(ConnectionPtr fresh, ConnectCuttable(options_));
  ConnectionPtr old;
  {
    MutexLock lock(&mutex_);
    old = std::exchange(connections_[next_cut_++ % connections_.size()],
                        std::move(fresh));
  }
  old->cut.store(true);
  old->socket->Cut();
  return absl::OkStatus();
}

}  // namespace

GrpcTransportFactory::GrpcTransportFactory(GrpcTransportOptions options,
                                           const MessageSet* messages)
    : options_(std::move(options)), messages_(messages) {}

absl::StatusOr<std::unique_ptr<Transport>> GrpcTransportFactory::Open(
    int places, RequestSink* sink) {
  ASSIGN_OR_RETURN(std::vector<ConnectionPtr> connections,
                   ConnectAll(options_));
  auto transport = std::make_unique<GrpcTransport>(
      options_, messages_, std::move(connections), sink);
  const std::string& prefix = options_.client_id_prefix;
  transport->AddPlaces(
      places, prefix.empty() ? "" : absl::StrCat(prefix, "-", opened_++));
  return absl::StatusOr<std::unique_ptr<Transport>>(std::move(transport));
}

}  // namespace qgemm
