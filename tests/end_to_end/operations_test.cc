// SPDX-License-Identifier: Apache-2.0
//
// The operator's side: addresses, ports, sockets, health, reflection,
// channelz, metrics, and the messages of a server that cannot start.

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/process_cpu.h"
#include "base/version.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "tests/end_to_end/child_server.h"
#include "tests/end_to_end/raw_call.h"
#include "tests/end_to_end/test_server.h"
#include "tests/support/datagram_socket.h"
#include "tests/support/temporary_folder.h"

namespace qgemm {
namespace {

namespace health = ::grpc::health::v1;
using ::testing::AllOf;
using ::testing::HasSubstr;

// A server that must refuse to start.
void ExpectCannotStart(const std::vector<std::string>& flags,
                       const std::string& reason, int exit_code = 1) {
  ChildServer server(flags);
  EXPECT_EQ(server.Wait(), exit_code);
  EXPECT_THAT(server.output(), HasSubstr(reason));
}

// A server whose command line cannot be read.
void ExpectUnreadable(const std::vector<std::string>& flags,
                      const std::string& reason) {
  ExpectCannotStart(flags, reason, 2);
}

TEST(Listen, ServesOnEveryAddress) {
  const TemporaryFolder folder;
  const std::string unix_address = "unix:" + folder.File("socket");
  ChildServer server({"--listen=127.0.0.1:0,localhost:0", "--listen",
                      unix_address, "--port_file", folder.File("ports")});
  server.WaitForOutput("serving on " + unix_address);
  std::ifstream file(folder.File("ports"));
  int first = 0, second = 0, third = 0;
  file >> first >> second;
  EXPECT_FALSE(file >> third);
  for (const std::string& address :
       {absl::StrCat("127.0.0.1:", first), absl::StrCat("127.0.0.1:", second),
        unix_address}) {
    EXPECT_EQ(Client(address).Info().weights_bytes(), 0) << address;
  }
}

TEST(Listen, RefusesAPortInUse) {
  TestServer other;
  ExpectCannotStart(
      {"--listen=" + other.address()},
      absl::StrCat("listen on ", other.address(), ": Address already in use"));
  other.NewClient().Info();  // it serves on
}

TEST(Flags, AWordThatABinaryFlagDoesNotKnowIsRefused) {
  ExpectUnreadable({"--listen=127.0.0.1:0", "--batching=sometimes"},
                   "--batching = sometimes is not one of on|off");
}

TEST(Listen, RefusesTheSamePortTwice) {
  // A port that is free: of a server that has gone.
  std::string address = TestServer().address();
  ExpectCannotStart({"--listen", address, "--listen", address}, address);
}

TEST(Listen, RefusesAUnixSocketInUse) {
  const TemporaryFolder folder;
  const std::string address = "unix:" + folder.File("socket");
  ChildServer server({"--listen", address});
  server.WaitForAddress();
  ExpectCannotStart({"--listen", address}, "another process listens there");
  Client(address).Info();
}

TEST(Listen, ReplacesASocketAtWhichNobodyListens) {
  const TemporaryFolder folder;
  const std::string address = "unix:" + folder.File("socket");
  {
    ChildServer killed({"--listen", address});
    killed.WaitForAddress();
  }
  ASSERT_EQ(access(folder.File("socket").c_str(), F_OK), 0);
  ChildServer server({"--listen", address});
  server.WaitForAddress();
  Client(address).Info();
}

TEST(Listen, LeavesAFileThatIsNoSocket) {
  const TemporaryFolder folder;
  std::ofstream(folder.File("socket")) << "precious";
  ExpectCannotStart({"--listen", "unix:" + folder.File("socket")},
                    "not a socket");
  std::string content;
  std::ifstream(folder.File("socket")) >> content;
  EXPECT_EQ(content, "precious");
}

TEST(Listen, RefusesAddressesOfOtherHosts) {
  for (const char* const address : {"0.0.0.0:0", "[::]:0", "10.1.2.3:0"}) {
    ExpectCannotStart({"--listen", address}, "reachable from other hosts");
    ExpectCannotStart({"--listen=127.0.0.1:0", "--metrics_listen", address},
                      "reachable from other hosts");
  }
}

TEST(Flags, RefusesWhatIsNotKnown) {
  ExpectUnreadable({"--no_such_flag"}, "no_such_flag");
  ExpectUnreadable({"positional"}, "positional");
  ExpectUnreadable({"--backend=abacus"}, "abacus");
  ExpectCannotStart({"--max_uploads=0"}, "--max_uploads = 0");
  ExpectCannotStart({"--max_message_bytes=4294967296"}, "--max_message_bytes");
  ExpectUnreadable({"--drain_timeout=-1s"}, "--drain_timeout");
  ExpectCannotStart({"--listen="}, "--listen");
  ExpectUnreadable({"--kernel=medium"}, "--kernel = medium");
  ExpectCannotStart({"--backend=cpu", "--tuning_file=/no/such/file"},
                    "--tuning_file = \"/no/such/file\"");
}

// grpc.health.v1.HealthCheckResponse { status = 1 }.
constexpr char kServing[] = "\x08\x01";
constexpr char kNotServing[] = "\x08\x02";
constexpr char kHealthCheck[] = "/grpc.health.v1.Health/Check";

TEST(Services, HealthSaysServing) {
  TestServer server;
  const Client client = server.NewClient();
  const std::string name = "qgemm.v1.Qgemm";
  const std::string named = absl::StrCat("\x0a", std::string(1, name.size()),
                                         name);  // service = 1
  for (const std::string& request : {std::string(), named}) {
    const RawAnswer answer = CallRaw(client.channel(), kHealthCheck, request);
    ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
    EXPECT_EQ(answer.bytes, kServing);
  }
}

TEST(Services, HealthSaysNotServingWhileTheServerDrains) {
  RandomGenerator random(FreshSeed());
  HeldServer server;
  const Client client = server.NewClient();
  LoadLayer(client, 32, 64, &random);
  server.backend().Hold();
  std::thread call([&] {
    EXPECT_TRUE(client.Gemm(MakeGemm("layer", 1, 64, &random)).ok());
  });
  server.backend().WaitForHeld(1);
  std::thread drain(
      [&] { server.test_server().server().Drain(absl::InfiniteFuture()); });
  std::string health = kServing;
  while (health == kServing) {
    const RawAnswer answer = CallRaw(client.channel(), kHealthCheck, "");
    ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
    health = answer.bytes;
  }
  EXPECT_EQ(health, kNotServing);
  server.backend().ReleaseAll();
  drain.join();
  call.join();
}

// Methods without an operand get what is no message, and a flood of fields that
// nobody knows.
TEST(Services, RefuseWhatTheyCannotOrNeedNotParse) {
  TestServer server;
  const Client client = server.NewClient();
  std::string flood;
  while (flood.size() < 1 << 20) flood.append("\x9a\x06\x00", 3);
  for (const std::string method :
       {"/qgemm.v1.Qgemm/ListWeights", "/qgemm.v1.Qgemm/GetWeights",
        "/qgemm.v1.Qgemm/UnloadWeights", "/qgemm.v1.Qgemm/GetServerInfo",
        "/qgemm.v1.QgemmDebug/Freeze", "/grpc.health.v1.Health/Check"}) {
    const grpc::Status bad =
        CallRaw(client.channel(), method, "\x0a\x05").status;
    EXPECT_EQ(bad.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << method;
    EXPECT_THAT(bad.error_message(), HasSubstr("does not parse as")) << method;
    const grpc::Status large = CallRaw(client.channel(), method, flood).status;
    EXPECT_EQ(large.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED)
        << method;
    EXPECT_THAT(large.error_message(), HasSubstr("65536")) << method;
  }
  EXPECT_EQ(StreamRaw(client.channel(), "/grpc.health.v1.Health/Watch", flood)
                .status.error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST(Services, HealthKnowsNoOtherService) {
  TestServer server;
  const auto health = health::Health::NewStub(server.NewClient().channel());
  health::HealthCheckRequest request;
  request.set_service("abacus");
  health::HealthCheckResponse response;
  grpc::ClientContext check;
  const grpc::Status status = health->Check(&check, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(status.error_message(), HasSubstr("\"abacus\""));
  grpc::ClientContext context;
  const auto watch = health->Watch(&context, request);
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), health::HealthCheckResponse::SERVICE_UNKNOWN);
  context.TryCancel();
  EXPECT_FALSE(watch->Read(&response));
  EXPECT_EQ(watch->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST(Services, AWatchHearsOfTheDrainAndEndsWithTheServer) {
  constexpr int kWatches = 10;
  TestServer server;
  const auto health = health::Health::NewStub(server.NewClient().channel());
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<health::HealthCheckResponse>>>
      watches;
  health::HealthCheckResponse response;
  for (int i = 0; i < kWatches; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    watches.push_back(health->Watch(contexts.back().get(), {}));
    ASSERT_TRUE(watches.back()->Read(&response));
    EXPECT_EQ(response.status(), health::HealthCheckResponse::SERVING);
  }
  server.server().Drain(absl::InfiniteFuture());
  for (const auto& watch : watches) {
    ASSERT_TRUE(watch->Read(&response));
    EXPECT_EQ(response.status(), health::HealthCheckResponse::NOT_SERVING);
    EXPECT_FALSE(watch->Read(&response));
    EXPECT_EQ(watch->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  }
}

TEST(Services, ReflectionListsTheService) {
  TestServer server;
  const RawAnswer answer = StreamRaw(
      server.NewClient().channel(),
      "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
      "\x3a\x01*");  // list_services = 7
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_THAT(answer.bytes, AllOf(HasSubstr("qgemm.v1.Qgemm"),
                                  HasSubstr("grpc.health.v1.Health")));
}

TEST(Services, ChannelzKnowsTheServer) {
  ServerOptions options;
  options.grpc.channelz = true;
  TestServer server(options);
  const RawAnswer answer = CallRaw(server.NewClient().channel(),
                                   "/grpc.channelz.v1.Channelz/GetServers", "");
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_FALSE(answer.bytes.empty());
}

TEST(Services, ChannelzIsOffByDefault) {
  TestServer server;
  const RawAnswer answer = CallRaw(server.NewClient().channel(),
                                   "/grpc.channelz.v1.Channelz/GetServers", "");
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

TEST(Services, MetricsCountRequests) {
  RandomGenerator random(FreshSeed());
  ServerOptions options;
  options.metrics_listen = "localhost:0";
  TestServer server(options);
  const Client client = server.NewClient();
  LoadLayer(client, 32, 64, &random);
  ASSERT_TRUE(client.Gemm(MakeGemm("layer", 1, 64, &random)).ok());
  EXPECT_FALSE(client.Gemm(MakeGemm("nobody", 1, 64, &random)).ok());
  const std::string text = ScrapeMetrics(server.server().metrics_port());
  EXPECT_THAT(text, HasSubstr("200 OK"));
  EXPECT_THAT(
      text, AllOf(HasSubstr("qgemm_rpcs_total{"), HasSubstr("method=\"Gemm\""),
                  HasSubstr("method=\"LoadWeights\"")));
}

TEST(ReadyNames, KeepHealthDownUntilTheyAreLoaded) {
  RandomGenerator random(FreshSeed());
  ChildServer server({"--listen=127.0.0.1:0", "--ready_names=layer"});
  const Client client(server.WaitForAddress());
  EXPECT_EQ(CallRaw(client.channel(), kHealthCheck, "").bytes, kNotServing);
  LoadLayer(client, 32, 64, &random);
  server.WaitForOutput("health state=serving");
  EXPECT_EQ(CallRaw(client.channel(), kHealthCheck, "").bytes, kServing);
}

TEST(ReadyNames, ThatAreNoneAreRefused) {
  ExpectCannotStart({"--listen=127.0.0.1:0", "--ready_names=a b"},
                    "--ready_names: ");
}

// The environment of a child that is started meanwhile.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const std::string& value) : name_(name) {
    setenv(name, value.c_str(), 1);
  }
  ~ScopedVariable() { unsetenv(name_); }

 private:
  const char* const name_;
};

TEST(Systemd, IsToldOfTheStartOfLifeAndOfTheEnd) {
  const TemporaryFolder folder;
  DatagramSocket systemd(folder.File("notify"));
  const ScopedVariable socket("NOTIFY_SOCKET", folder.File("notify"));
  const ScopedVariable watchdog("WATCHDOG_USEC", "200000");
  ChildServer server(
      {"--listen=127.0.0.1:0", "--port_file", folder.File("ports")});
  EXPECT_THAT(systemd.Next(), HasSubstr("READY=1\nSTATUS=serving on 127.0.0"));
  EXPECT_EQ(access(folder.File("ports").c_str(), F_OK), 0);
  EXPECT_EQ(systemd.Next(), "WATCHDOG=1");
  EXPECT_EQ(systemd.Next(), "WATCHDOG=1");
  server.Signal(SIGTERM);
  std::string message = systemd.Next();
  while (message == "WATCHDOG=1") message = systemd.Next();
  EXPECT_EQ(message, "STOPPING=1");
  EXPECT_EQ(server.Wait(), 0);
}

TEST(Systemd, AStrangeSocketIsRefused) {
  const ScopedVariable socket("NOTIFY_SOCKET", "relative");
  ExpectCannotStart({"--listen=127.0.0.1:0"}, "NOTIFY_SOCKET = \"relative\"");
}

TEST(Info, TellsBackendAndLimits) {
  ServerOptions options;
  options.backend.kind = BackendKind::kReference;
  options.max_message_bytes = 123456;
  options.weights_limits.max_n = 777;
  TestServer server(options);
  const v1::GetServerInfoResponse info = server.NewClient().Info();
  EXPECT_EQ(info.backend(), "reference");
  EXPECT_EQ(info.max_message_bytes(), 123456);
  EXPECT_EQ(info.max_n(), 777);
  EXPECT_EQ(info.version(), kVersion);
  EXPECT_EQ(info.formats_size(), 8);
}

TEST(Info, TellsTheProcessorTimeOfTheProcess) {
  TestServer server;  // in this process
  const Client client = server.NewClient();
  const int64_t before = absl::ToInt64Nanoseconds(ProcessCpu());
  const auto told = static_cast<int64_t>(client.Info().process_cpu_ns());
  EXPECT_GE(told, before);
  EXPECT_LE(told, absl::ToInt64Nanoseconds(ProcessCpu()));
}

}  // namespace
}  // namespace qgemm
