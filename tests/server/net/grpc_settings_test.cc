// SPDX-License-Identifier: Apache-2.0
//
// Settings of gRPC's server: their text, their bounds, and a server that has
// them, called by stock clients over every kind of connection.

#include "server/net/grpc_settings.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "server/metrics/server_metrics.h"
#include "server/net/accept_loop.h"
#include "server/net/peer_table.h"
#include "tests/server/net/test_sockets.h"
#include "tests/support/temporary_folder.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(ParseChannelArgument, ReadsNumbersAndText) {
  const auto number = ParseChannelArgument("grpc.max_metadata_size=4096");
  ASSERT_TRUE(number.ok()) << number.status();
  EXPECT_EQ(number->name, "grpc.max_metadata_size");
  EXPECT_EQ(std::get<int>(number->value), 4096);
  const auto text = ParseChannelArgument("grpc.name=a=b");
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(std::get<std::string>(text->value), "a=b");
  for (const char* const bad : {"", "grpc.name", "=1", "name=1"}) {
    EXPECT_EQ(ParseChannelArgument(bad).status().code(),
              absl::StatusCode::kInvalidArgument)
        << bad;
  }
}

TEST(ValidateGrpcSettings, NamesTheFlag) {
  GrpcSettings settings;
  EXPECT_TRUE(Validate(settings).ok());
  settings.keepalive_time = absl::Milliseconds(1);
  EXPECT_THAT(std::string(Validate(settings).message()),
              HasSubstr("--keepalive_time = 1ms"));
  settings = {};
  settings.max_transport_bytes = 1;
  EXPECT_THAT(std::string(Validate(settings).message()),
              HasSubstr("--max_transport_bytes = 1 "));
  settings = {};
  settings.channel_arguments = {"nonsense"};
  EXPECT_THAT(std::string(Validate(settings).message()),
              HasSubstr("\"nonsense\""));
}

// A server that answers any call with what it knows of its client.
class TellingServer {
 public:
  explicit TellingServer(const GrpcSettings& settings = {}) {
    grpc::ServerBuilder builder;
    builder.RegisterAsyncGenericService(&service_);
    queue_ = builder.AddCompletionQueue();
    Configure(settings, 1 << 20, &builder);
    acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
        grpc::InsecureServerCredentials());
    server_ = builder.BuildAndStart();
    CHECK(server_ != nullptr);
    std::vector<Listener> listeners;
    for (const std::string& address :
         {std::string("127.0.0.1:0"), std::string("[::1]:0"),
          "unix:" + folder_.File("socket")}) {
      listeners.push_back(MustListen(address));
      addresses_.push_back(listeners.back().address().ToString());
    }
    loop_ = std::make_unique<AcceptLoop>(
        std::move(listeners), ConnectionLimits{100, 100},
        AcceptLoop::Parts{&peers_, &metrics_, &clock_},
        [this](const Listener&, int fd) {
          grpc::experimental::ExternalConnectionAcceptor::
              NewConnectionParameters connection;
          connection.fd = fd;
          acceptor_->HandleNewConnection(&connection);
        });
    loop_->Start();
    thread_ = std::thread([this] { Serve(); });
  }

  ~TellingServer() {
    loop_->Stop();
    server_->Shutdown(std::chrono::system_clock::now());
    {
      MutexLock lock(&mutex_);
      ended_ = true;
      queue_->Shutdown();
    }
    thread_.join();
  }

  const std::vector<std::string>& addresses() const { return addresses_; }

 private:
  struct Call {
    grpc::GenericServerContext context;
    grpc::GenericServerAsyncReaderWriter stream{&context};
    bool accepted = false;
  };

  void Accept() {
    MutexLock lock(&mutex_);
    if (ended_) return;
    auto* const call = new Call;
    service_.RequestCall(&call->context, &call->stream, queue_.get(),
                         queue_.get(), call);
  }

  void Serve() {
    Accept();
    void* tag = nullptr;
    bool ok = false;
    while (queue_->Next(&tag, &ok)) {
      auto* const call = static_cast<Call*>(tag);
      if (!ok || call->accepted) {
        delete call;
        continue;
      }
      Accept();
      call->accepted = true;
      const auto peer = peers_.Find(call->context);
      const std::string answer =
          absl::StrCat(peer->identity, "\n", call->context.peer());
      const grpc::Slice slice(answer);
      call->stream.WriteAndFinish(grpc::ByteBuffer(&slice, 1), {},
                                  grpc::Status::OK, call);
    }
  }

  const TemporaryFolder folder_;
  const SteadyClock clock_;
  PeerTable peers_;
  ServerMetrics metrics_;
  grpc::AsyncGenericService service_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<AcceptLoop> loop_;
  std::vector<std::string> addresses_;
  Mutex mutex_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

struct Told {
  grpc::Status status;
  std::string text;
};

Told Call(const std::shared_ptr<grpc::Channel>& channel,
          const std::function<void(grpc::ClientContext*)>& change = nullptr) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  if (change != nullptr) change(&context);
  grpc::CompletionQueue queue;
  // Long and uniform enough that a client compresses it.
  const grpc::Slice slice(std::string(10000, 'x'));
  const grpc::ByteBuffer request(&slice, 1);
  const auto reader =
      stub.PrepareUnaryCall(&context, "/any/Method", request, &queue);
  reader->StartCall();
  grpc::ByteBuffer response;
  Told told;
  reader->Finish(&response, &told.status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  CHECK(queue.Next(&tag, &ok));
  grpc::Slice answer;
  if (told.status.ok()) {
    CHECK(response.DumpToSingleSlice(&answer).ok());
    told.text.assign(reinterpret_cast<const char*>(answer.begin()),
                     answer.size());
  }
  return told;
}

std::shared_ptr<grpc::Channel> NewChannel(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(),
                                   arguments);
}

TEST(ServerOfGrpcSettings, KnowsWhoCallsOverEveryKindOfConnection) {
  const TellingServer server;
  for (const std::string& address : server.addresses()) {
    const Told told = Call(NewChannel(address));
    ASSERT_TRUE(told.status.ok()) << address << told.status.error_message();
    EXPECT_THAT(told.text, StartsWith(absl::StrCat("uid ", getuid(), "\n")))
        << address;
  }
}

TEST(ServerOfGrpcSettings, TellsUnixConnectionsApart) {
  const TellingServer server;
  const std::string& address = server.addresses().back();
  const auto channel = NewChannel(address);
  const std::string first = Call(channel).text;
  EXPECT_EQ(Call(channel).text, first);
  const std::string second = Call(NewChannel(address)).text;
  EXPECT_THAT(second, HasSubstr("unix:connection-"));
  EXPECT_NE(second, first);
}

TEST(ServerOfGrpcSettings, RefusesCompressedMessages) {
  const TellingServer server;
  for (const grpc_compression_algorithm algorithm :
       {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
    const Told told = Call(NewChannel(server.addresses().front()),
                           [&](grpc::ClientContext* context) {
                             context->set_compression_algorithm(algorithm);
                           });
    EXPECT_EQ(told.status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  }
}

TEST(ServerOfGrpcSettings, AnArgumentOfTheCommandLineWins) {
  GrpcSettings settings;
  settings.channel_arguments = {"grpc.max_metadata_size=128"};
  const TellingServer server(settings);
  const Told told = Call(NewChannel(server.addresses().front()),
                         [](grpc::ClientContext* context) {
                           context->AddMetadata("long", std::string(1000, 'x'));
                         });
  EXPECT_EQ(told.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

}  // namespace
}  // namespace qgemm
