// SPDX-License-Identifier: Apache-2.0

#include <fcntl.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/generic/generic_stub.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "client/channels.h"
#include "client/gemm_wire.h"
#include "loadtest/engine/message_set.h"
#include "loadtest/engine/transport.h"
#include "qgemm/v1/qgemm.pb.h"
#include "rpc/completion_queue.h"
#include "rpc/grpc_status.h"
#include "rpc/payload_message.h"

namespace qgemm::loadtest {
namespace {

absl::Status NoConnection(absl::string_view target, absl::string_view reason) {
  return absl::UnavailableError(
      absl::StrCat("connect to ", target, ": ", reason));
}

// A connected, non-blocking socket.
absl::StatusOr<int> ConnectUnix(const std::string& target) {
  absl::string_view path = target;
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (!absl::ConsumePrefix(&path, "unix:") ||
      path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat(
        target, ": connections that can be cut need unix:PATH, the path below ",
        sizeof(address.sun_path), " bytes"));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  const int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor >= 0 &&
      connect(descriptor, reinterpret_cast<const sockaddr*>(&address),
              sizeof(address)) == 0 &&
      fcntl(descriptor, F_SETFL, O_NONBLOCK) == 0) {
    return descriptor;
  }
  const int error = errno;
  if (descriptor >= 0) close(descriptor);
  return NoConnection(target, std::strerror(error));
}

// One connection, for as long as it lasts.
struct Connection {
  explicit Connection(std::shared_ptr<grpc::Channel> carrier, int own = -1)
      : channel(std::move(carrier)), stub(channel), descriptor(own) {}
  ~Connection() {
    if (descriptor >= 0) close(descriptor);
  }

  const std::shared_ptr<grpc::Channel> channel;
  grpc::GenericStub stub;
  const int descriptor;  // of the socket, if it can be cut; gRPC has another
  std::atomic<bool> cut{false};
};

using ConnectionPtr = std::shared_ptr<Connection>;

absl::StatusOr<ConnectionPtr> ConnectCuttable(const std::string& target) {
  ASSIGN_OR_RETURN(const int connected, ConnectUnix(target));
  return std::make_shared<Connection>(
      grpc::CreateCustomInsecureChannelFromFd(
          target, fcntl(connected, F_DUPFD_CLOEXEC, 0),
          ChannelArgumentsFor(kMaxMessageBytes)),
      connected);
}

// The connections of transport number `number`, which begins with another
// server than the one before it.
absl::StatusOr<std::vector<ConnectionPtr>> ConnectAll(
    const TransportOptions& options, const Connector& connector, int number) {
  std::vector<ConnectionPtr> connections;
  if (options.can_be_cut) {
    for (int i = 0; i < options.channels; ++i) {
      ASSIGN_OR_RETURN(ConnectionPtr connection,
                       ConnectCuttable(options.target));
      connections.push_back(std::move(connection));
    }
    return connections;
  }
  const Channels channels = connector.Connect(options.channels);
  WaitForChannels(channels, absl::Now() + options.connect_timeout);
  for (const ServerChannel& each : channels) {
    if (each.channel->GetState(false) != GRPC_CHANNEL_READY) {
      return NoConnection(
          connector.servers()[each.server].address,
          absl::StrCat("no connection within ",
                       absl::FormatDuration(options.connect_timeout)));
    }
    connections.push_back(std::make_shared<Connection>(each.channel));
  }
  std::rotate(connections.begin(),
              connections.begin() + number % connector.servers().size(),
              connections.end());
  return connections;
}

// The field client_id alone; it may follow any message that has none.
grpc::Slice ClientIdSlice(const std::string& client_id) {
  v1::GemmRequest message;
  message.set_client_id(client_id);
  return grpc::Slice(message.SerializeAsString());
}

class GrpcTransport final : public Transport {
 public:
  // Each slot is a client of its own, of that name and its number; no clients
  // if the name is empty.
  GrpcTransport(const TransportOptions& options, const MessageSet* messages,
                std::vector<ConnectionPtr> connections,
                std::shared_ptr<TokenSource> token, int slots,
                const std::string& name, RequestSink* sink)
      : options_(options),
        token_(std::move(token)),
        messages_(messages),
        sink_(sink),
        connections_(std::move(connections)) {
    requests_.resize(slots);
    ended_.resize(options_.parts);
    for (int slot = 0; slot < slots; ++slot) {
      requests_[slot].answers.resize(options_.parts);
      std::optional<grpc::Slice> client_id;
      if (!name.empty()) {
        client_id = ClientIdSlice(absl::StrCat(name, "-", slot));
      }
      for (int part = 0; part < options_.parts; ++part) {
        calls_.push_back(std::make_unique<Call>(this, slot, part, client_id));
      }
    }
    queue_.Start();
  }

  ~GrpcTransport() override { queue_.ShutDown(); }

  void Start(int slot, int message, absl::Duration timeout) override {
    requests_[slot].parts_left = options_.parts;
    for (int part = 0; part < options_.parts; ++part) {
      CallOf(slot, part).Start(message * options_.parts + part, timeout);
    }
  }

  void Cancel(int slot) override {
    for (int part = 0; part < options_.parts; ++part) {
      CallOf(slot, part).Cancel();
    }
  }

  absl::Status Disconnect() override;

 private:
  // A part of a slot's request, or all of it.
  class Call final : public CompletionTag {
   public:
    Call(GrpcTransport* transport, int slot, int part,
         std::optional<grpc::Slice> client_id)
        : transport_(transport),
          slot_(slot),
          part_(part),
          client_id_(std::move(client_id)) {}

    void Start(int message, absl::Duration timeout);
    void Cancel();
    void Complete(bool ok) override;

   private:
    // Frees the call for its next message and moves the end of this one out.
    void TakeEnd(EndedRequest* end, grpc::ByteBuffer* response);

    grpc::ByteBuffer WithClientId(const grpc::ByteBuffer& message) const;

    GrpcTransport* const transport_;
    const int slot_;
    const int part_;
    const std::optional<grpc::Slice> client_id_;
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

  // A slot's request in flight, as far as its parts have ended. Set up before
  // its first part starts, then the queue's thread's.
  struct Request {
    int parts_left = 0;
    absl::Status status;
    bool cut = false;
    std::vector<grpc::ByteBuffer> answers;  // by part
  };
  // The answer to a part, read where it lies.
  struct EndedPart {
    grpc::ByteBuffer bytes;
    v1::GemmResponse message;  // a RunResponse has the same fields
    ReceivedPayload c;
  };

  Call& CallOf(int slot, int part) {
    return *calls_[slot * options_.parts + part];
  }

  ConnectionPtr ConnectionOf(int slot, int part) {
    MutexLock lock(&mutex_);
    return connections_[(slot * options_.parts + part) % connections_.size()];
  }

  // A part of the slot's request ended; its answer is among the request's. Ends
  // the request with its last part.
  void EndPart(int slot, int part, const EndedRequest& end);
  // Reads the answers of all parts.
  void ReadAnswers(int last_part, EndedRequest* end);

  const TransportOptions options_;
  const std::shared_ptr<TokenSource> token_;  // null: none
  const MessageSet* const messages_;
  RequestSink* const sink_;
  std::vector<Request> requests_;  // by slot
  // The request that is ending; both belong to the queue's thread.
  std::vector<EndedPart> ended_;
  std::vector<absl::string_view> c_;
  std::vector<std::unique_ptr<Call>> calls_;  // by slot, then part
  Mutex mutex_;
  std::vector<ConnectionPtr> connections_ ABSL_GUARDED_BY(mutex_);
  size_t next_cut_ ABSL_GUARDED_BY(mutex_) = 0;
  CompletionQueue queue_;
};

void GrpcTransport::Call::Start(int message, absl::Duration timeout) {
  MutexLock lock(&mutex_);
  connection_ = transport_->ConnectionOf(slot_, part_);
  context_.emplace();
  deadline_ = absl::InfiniteFuture();
  if (timeout < absl::InfiniteDuration()) deadline_ = absl::Now() + timeout;
  SetContextDeadline(deadline_, &*context_);
  if (transport_->token_ != nullptr) {
    transport_->token_->Authorize(&*context_);
  }
  const MessageSet& messages = *transport_->messages_;
  reader_ = connection_->stub.PrepareUnaryCall(
      &*context_, messages.method(message),
      WithClientId(messages.message(message)), transport_->queue_.queue());
  reader_->StartCall();
  reader_->Finish(&response_, &status_, Publish());
}

// Slices are shared, not copied.
grpc::ByteBuffer GrpcTransport::Call::WithClientId(
    const grpc::ByteBuffer& message) const {
  if (!client_id_.has_value()) return message;
  std::vector<grpc::Slice> slices;
  (void)message.Dump(&slices);  // fails for compressed messages alone
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
  grpc::ByteBuffer response;
  TakeEnd(&end, &response);
  transport_->requests_[slot_].answers[part_].Swap(&response);
  transport_->EndPart(slot_, part_, end);
}

void GrpcTransport::EndPart(int slot, int part, const EndedRequest& end) {
  Request& request = requests_[slot];
  request.status.Update(end.status);
  request.cut |= end.cut;
  if (--request.parts_left > 0) return;
  EndedRequest all;
  all.status = std::exchange(request.status, absl::OkStatus());
  all.cut = std::exchange(request.cut, false);
  // They outlive the slot's request.
  for (int i = 0; i < options_.parts; ++i) {
    ended_[i].bytes.Swap(&request.answers[i]);
    request.answers[i].Clear();
  }
  if (all.status.ok()) ReadAnswers(part, &all);
  sink_->OnEnd(slot, all);
}

void GrpcTransport::ReadAnswers(int last_part, EndedRequest* end) {
  c_.clear();
  for (EndedPart& part : ended_) {
    const absl::Status read =
        ReadPayloadMessage(&part.bytes, &part.message, &part.c);
    if (!read.ok()) {
      end->status = absl::InternalError(
          absl::StrCat("the server's answer: ", read.message()));
      return;
    }
    c_.insert(c_.end(), part.c.pieces.begin(), part.c.pieces.end());
  }
  end->timings = FromWire(ended_[last_part].message.timings());
  end->c = c_;
}

absl::Status GrpcTransport::Disconnect() {
  if (!options_.can_be_cut) {
    return Transport::Disconnect();
  }
  ASSIGN_OR_RETURN(ConnectionPtr fresh, ConnectCuttable(options_.target));
  ConnectionPtr old;
  {
    MutexLock lock(&mutex_);
    old = std::exchange(connections_[next_cut_++ % connections_.size()],
                        std::move(fresh));
  }
  old->cut.store(true);
  // Ends the connection for every descriptor of it: to the server it looks as
  // though the client had vanished.
  shutdown(old->descriptor, SHUT_RDWR);
  return absl::OkStatus();
}

}  // namespace

OpenTransport GrpcTransports(TransportOptions options,
                             const MessageSet* messages) {
  return [options = std::move(options), messages,
          opened = std::make_shared<std::atomic<int>>(0)](
             int slots, RequestSink* sink) -> OpenedTransport {
    const int number = (*opened)++;
    ClientOptions client = options.client;
    client.max_message_bytes = kMaxMessageBytes;
    ASSIGN_OR_RETURN(const Connector connector,
                     Connector::Create(options.target, client));
    ASSIGN_OR_RETURN(std::vector<ConnectionPtr> connections,
                     ConnectAll(options, connector, number));
    const std::string& prefix = options.client_id_prefix;
    return std::make_unique<GrpcTransport>(
        options, messages, std::move(connections), connector.token(), slots,
        prefix.empty() ? "" : absl::StrCat(prefix, "-", number), sink);
  };
}

}  // namespace qgemm::loadtest
