// SPDX-License-Identifier: Apache-2.0
//
// Connections of a real server: their limits, exhausted descriptors, Unix
// sockets' files, and gRPC's defaults that would let one client take all.

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "tests/end_to_end/child_server.h"
#include "tests/end_to_end/client.h"
#include "tests/end_to_end/test_server.h"
#include "tests/support/child_process.h"
#include "tests/support/temporary_folder.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;

constexpr char kReflection[] =
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";

// A connection that says nothing. `address` is "127.0.0.1:port".
int ConnectTo(const std::string& address) {
  int port = 0;
  CHECK(absl::SimpleAtoi(
      absl::string_view(address).substr(address.rfind(':') + 1), &port));
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  CHECK_GE(fd, 0);
  sockaddr_in end = {};
  end.sin_family = AF_INET;
  end.sin_port = htons(port);
  end.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  CHECK_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&end), sizeof(end)),
           0);
  return fd;
}

// Calls once, on a connection of its own.
grpc::Status Info(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const auto stub = v1::Qgemm::NewStub(grpc::CreateCustomChannel(
      address, grpc::InsecureChannelCredentials(), arguments));
  grpc::ClientContext context;
  v1::GetServerInfoResponse response;
  return stub->GetServerInfo(&context, {}, &response);
}

// Calls until a connection is accepted: ended ones may still count.
void InfoSoon(const std::string& address) {
  grpc::Status status = Info(address);
  while (status.error_code() == grpc::StatusCode::UNAVAILABLE) {
    status = Info(address);
  }
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST(Connections, AFloodBeyondTheDescriptorsPasses) {
  ChildProcess server("/usr/bin/prlimit",
                      {"--nofile=64:64", "server/qgemm_server",
                       "--listen=127.0.0.1:0", "--backend=reference"});
  server.WaitForOutput("is too many for 64 open files");
  const std::string address = server.WaitForOutput("serving on ");
  std::vector<int> flood;
  for (int i = 0; i < 200; ++i) flood.push_back(ConnectTo(address));
  EXPECT_EQ(Info(address).error_code(), grpc::StatusCode::UNAVAILABLE);
  for (const int fd : flood) close(fd);
  InfoSoon(address);
}

TEST(Connections, OneClientHasALimit) {
  ServerOptions options;
  options.connections = {10, 2};
  options.metrics_listen = "127.0.0.1:0";
  TestServer server(options);
  const Client first = server.NewClient();
  const Client second = server.NewClient();
  first.Info();
  second.Info();
  EXPECT_EQ(Info(server.address()).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_GE(ScrapeMetric(server.server().metrics_port(),
                         "qgemm_connections_refused_total{reason=\"peer\"}"),
            1);
  first.Info();
}

TEST(Connections, AnEndedOneMakesRoom) {
  ServerOptions options;
  options.connections = {1, 1};
  TestServer server(options);
  EXPECT_TRUE(Info(server.address()).ok());
  InfoSoon(server.address());
}

TEST(Connections, IdleOnesAreToldToGo) {
  ServerOptions options;
  options.grpc.idle_timeout = absl::Seconds(1);
  TestServer server(options);
  const Client client = server.NewClient();
  client.Info();
  grpc_connectivity_state state = client.channel()->GetState(false);
  while (state == GRPC_CHANNEL_READY) {
    client.channel()->WaitForStateChange(
        state, std::chrono::system_clock::time_point::max());
    state = client.channel()->GetState(false);
  }
  client.Info();  // on a new one
}

bool Serves(const ChildServer& server) {
  return server.output().find("serving on") != std::string::npos;
}

TEST(UnixSockets, OfTwoStartsAtOnceOneServes) {
  for (int i = 0; i < 5; ++i) {
    const TemporaryFolder folder;
    const std::string address = "unix:" + folder.File("socket");
    const std::vector<std::string> flags = {"--backend=reference", "--listen",
                                            address};
    ChildServer first(flags);
    ChildServer second(flags);
    while (!Serves(first) && !Serves(second)) std::this_thread::yield();
    ChildServer& serving = Serves(first) ? first : second;
    ChildServer& refused = &serving == &first ? second : first;
    EXPECT_EQ(refused.Wait(), 1);
    EXPECT_THAT(refused.output(), HasSubstr("another process listens there"));
    EXPECT_TRUE(Info(address).ok());
    serving.Signal(SIGTERM);
    EXPECT_EQ(serving.Wait(), 0);
    EXPECT_NE(access(folder.File("socket").c_str(), F_OK), 0);
    EXPECT_NE(access(folder.File("socket.lock").c_str(), F_OK), 0);
  }
}

TEST(UnixSockets, HaveTheModeAndGroupOfTheFlags) {
  const TemporaryFolder folder;
  ChildServer server({"--backend=reference", "--socket_mode=0620",
                      absl::StrCat("--socket_group=", getgid()), "--listen",
                      "unix:" + folder.File("socket")});
  server.WaitForAddress();
  struct stat file = {};
  ASSERT_EQ(lstat(folder.File("socket").c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0620);
  EXPECT_EQ(file.st_gid, getgid());
}

TEST(UnixSockets, AnUnknownModeOrGroupIsRefused) {
  ChildServer mode({"--socket_mode=rw"});
  EXPECT_EQ(mode.Wait(), 1);
  EXPECT_THAT(mode.output(), HasSubstr("--socket_mode = \"rw\""));
  ChildServer group({"--socket_group=nobody-knows"});
  EXPECT_EQ(group.Wait(), 1);
  EXPECT_THAT(group.output(), HasSubstr("--socket_group = \"nobody-knows\""));
}

TEST(Messages, CompressedOnesAreRefused) {
  TestServer server;
  const Client client = server.NewClient();
  grpc::ClientContext context;
  context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
  v1::GemmRequest request;
  request.set_a(std::string(1 << 20, '\0'));
  v1::GemmResponse response;
  EXPECT_EQ(client.stub()->Gemm(&context, request, &response).error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
}

// A stream of reflection that stays open.
class ReflectionStream {
 public:
  explicit ReflectionStream(const std::shared_ptr<grpc::Channel>& channel)
      : stub_(channel),
        stream_(stub_.PrepareCall(&context_, kReflection, &queue_)) {
    stream_->StartCall(this);
    Wait();
  }
  ~ReflectionStream() { Finish(); }

  // Asks and returns true if the server answers.
  bool Ask() {
    const grpc::Slice list_services("\x3a\x01*");
    stream_->Write(grpc::ByteBuffer(&list_services, 1), this);
    if (!Wait()) return false;
    grpc::ByteBuffer answer;
    stream_->Read(&answer, this);
    return Wait();
  }

  grpc::Status Finish() {
    if (finished_) return status_;
    finished_ = true;
    context_.TryCancel();
    stream_->Finish(&status_, this);
    Wait();
    return status_;
  }

  // The status of a stream that the server has ended.
  grpc::Status EndedBy() {
    finished_ = true;
    stream_->Finish(&status_, this);
    Wait();
    return status_;
  }

 private:
  bool Wait() {
    void* tag = nullptr;
    bool ok = false;
    return queue_.Next(&tag, &ok) && ok;
  }

  grpc::CompletionQueue queue_;
  grpc::ClientContext context_;
  grpc::GenericStub stub_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  bool finished_ = false;
  grpc::Status status_;
};

TEST(Reflection, HasABoundOfStreams) {
  constexpr int kStreams = 40;
  TestServer server;
  const Client client = server.NewClient();
  std::vector<std::unique_ptr<ReflectionStream>> streams;
  int served = 0;
  for (int i = 0; i < kStreams; ++i) {
    auto stream = std::make_unique<ReflectionStream>(client.channel());
    if (stream->Ask()) {
      ++served;
      streams.push_back(std::move(stream));
    } else {
      EXPECT_EQ(stream->EndedBy().error_code(),
                grpc::StatusCode::RESOURCE_EXHAUSTED);
    }
  }
  EXPECT_GT(served, 0);
  EXPECT_LE(served, 16);
  client.Info();
}

TEST(Reflection, CanBeTurnedOff) {
  ServerOptions options;
  options.grpc.reflection = false;
  TestServer server(options);
  ReflectionStream stream(server.NewClient().channel());
  EXPECT_FALSE(stream.Ask());
  EXPECT_EQ(stream.EndedBy().error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

TEST(Budgets, HaveDefaults) {
  ServerOptions options;
  options.backend.kind = BackendKind::kReference;
  TestServer server(options);
  EXPECT_GT(server.NewClient().Info().weights_budget_bytes(), 0);
}

}  // namespace
}  // namespace qgemm
