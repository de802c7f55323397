// SPDX-License-Identifier: Apache-2.0
//
// Clients of the access table, and their calls and connections when it changes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "qgemm/v1/qgemm.grpc.pb.h"
#include "tests/end_to_end/access_server.h"
#include "tests/end_to_end/child_server.h"
#include "tests/end_to_end/test_server.h"
#include "tests/support/temporary_folder.h"

namespace qgemm {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kInfo[] = "/qgemm.v1.Qgemm/GetServerInfo";
constexpr char kList[] = "/qgemm.v1.Qgemm/ListWeights";
constexpr auto kUnauthenticated = grpc::StatusCode::UNAUTHENTICATED;
constexpr auto kDenied = grpc::StatusCode::PERMISSION_DENIED;

grpc::StatusCode CodeOf(const Client& client, const char* path,
                        const Metadata& metadata = {}) {
  return Call(client.channel(), path, metadata).error_code();
}

TableClient Computing(const std::string& id, std::vector<std::string> matches) {
  return {id, std::move(matches), {"compute"}};
}

TEST(Access, KnowsTwoClientsOfOneConnectionByTheirTokens) {
  ServerOptions options;
  options.metrics_listen = "127.0.0.1:0";
  AccessServer server(TableOf({Computing("anna", {MatchToken("a")}),
                               Computing("bert", {MatchToken("b")})}),
                      options);
  const Client client = server.NewTcpClient();
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(CodeOf(client, kList, WithToken("a")), grpc::StatusCode::OK);
    EXPECT_EQ(CodeOf(client, kList, WithToken("b")), grpc::StatusCode::OK);
    EXPECT_EQ(CodeOf(client, kList, WithToken("c")), kUnauthenticated);
    EXPECT_EQ(CodeOf(client, kList), kUnauthenticated);
  }
  const int port = server.server().metrics_port();
  EXPECT_EQ(ScrapeMetric(port, "qgemm_denied_calls_total{reason=\"token\"}"),
            3);
  EXPECT_EQ(ScrapeMetric(port, "qgemm_denied_calls_total{reason=\"unknown\"}"),
            3);
}

TEST(Access, KnowsTwoUsersOfOneSocket) {
  constexpr int kAnna = 12345, kBert = 12346, kNobody = 12347;
  AccessServer server(TableOf({Computing("anna", {MatchUser(kAnna)}),
                               {"bert", {MatchUser(kBert)}, {"debug"}}}));
  const auto anna = server.NewUnixClientOf(kAnna);
  const auto bert = server.NewUnixClientOf(kBert);
  const auto nobody = server.NewUnixClientOf(kNobody);
  if (anna == nullptr || bert == nullptr || nobody == nullptr) {
    GTEST_SKIP() << "only root can be another user";
  }
  EXPECT_EQ(CodeOf(*anna, kList), grpc::StatusCode::OK);
  EXPECT_EQ(CodeOf(*bert, kList), kDenied);
  EXPECT_EQ(CodeOf(*bert, kInfo), grpc::StatusCode::OK);
  EXPECT_EQ(CodeOf(*nobody, kInfo), kUnauthenticated);
  EXPECT_EQ(CodeOf(server.NewUnixClient(), kInfo), kUnauthenticated);
}

TEST(Access, AWrongTokenIsWrongOnAConnectionOfAKnownUserToo) {
  AccessServer server(TableOf({Computing("user", {MatchThisUser()})}));
  const Client client = server.NewUnixClient();
  EXPECT_EQ(CodeOf(client, kList), grpc::StatusCode::OK);
  EXPECT_EQ(CodeOf(client, kList, WithToken("guess")), kUnauthenticated);
  EXPECT_EQ(CodeOf(client, kList, {{"authorization", ""}}), kUnauthenticated);
  EXPECT_EQ(CodeOf(client, kList), grpc::StatusCode::OK);
}

TEST(Access, SaysWhichRightIsMissingAndToWhom) {
  AccessServer server(TableOf({Computing("anna", {MatchThisUser()})}));
  const grpc::Status status =
      Call(server.NewUnixClient().channel(), "/qgemm.v1.Qgemm/UnloadWeights");
  EXPECT_EQ(status.error_code(), kDenied);
  EXPECT_EQ(status.error_message(),
            "client anna lacks the right load, which UnloadWeights needs");
}

TEST(Access, ReflectionSaysSoToo) {
  AccessServer server(TableOf({Computing("anna", {MatchThisUser()})}));
  const grpc::Status status =
      Call(server.NewUnixClient().channel(),
           "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo");
  EXPECT_EQ(status.error_code(), kDenied);
  EXPECT_EQ(
      status.error_message(),
      "client anna lacks the right debug, which ServerReflectionInfo needs");
}

TEST(Access, AProxysCallsAreThoseOfTheClientThatItNames) {
  AccessServer server(
      TableOf({{"proxy", {MatchThisUser()}, {}, /*is_proxy=*/true},
               Computing("anna", {MatchName("san", "anna.corp")}),
               {"bert", {MatchName("cn", "bert")}, {"load"}}}));
  const Client client = server.NewUnixClient();
  EXPECT_EQ(CodeOf(client, kInfo), kUnauthenticated);
  const Metadata anna = {{"x-qgemm-identity", "san:anna.corp"}};
  const Metadata bert = {{"x-qgemm-identity", "cn:bert"}};
  const Metadata nobody = {{"x-qgemm-identity", "cn:anna.corp"}};
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(CodeOf(client, "/qgemm.v1.Qgemm/Gemm", bert), kDenied);
    EXPECT_EQ(CodeOf(client, "/qgemm.v1.Qgemm/UnloadWeights", anna), kDenied);
    EXPECT_EQ(CodeOf(client, kList, anna), grpc::StatusCode::OK);
    EXPECT_EQ(CodeOf(client, kList, bert), grpc::StatusCode::OK);
    EXPECT_EQ(CodeOf(client, kList, nobody), kUnauthenticated);
  }
}

TEST(Access, NobodyElseNamesAnotherClient) {
  AccessServer server(TableOf({{"anna", {MatchThisUser()}, {}},
                               Computing("bert", {MatchName("cn", "bert")})}));
  EXPECT_EQ(
      CodeOf(server.NewUnixClient(), kList, {{"x-qgemm-identity", "cn:bert"}}),
      kDenied);
}

TEST(AccessReload, TokensAreRotatedOnOpenConnections) {
  const Metadata old_token = WithToken("old"), new_token = WithToken("new");
  AccessServer server(TableOf({Computing("anna", {MatchToken("old")})}));
  const Client client = server.NewTcpClient();
  EXPECT_EQ(CodeOf(client, kList, old_token), grpc::StatusCode::OK);
  EXPECT_EQ(CodeOf(client, kList, new_token), kUnauthenticated);

  server.WriteTable(
      TableOf({Computing("anna", {MatchToken("old"), MatchToken("new")})}));
  server.WaitFor(grpc::StatusCode::OK, new_token);
  EXPECT_EQ(CodeOf(client, kList, old_token), grpc::StatusCode::OK);
  EXPECT_EQ(CodeOf(client, kList, new_token), grpc::StatusCode::OK);

  server.WriteTable(TableOf({Computing("anna", {MatchToken("new")})}));
  server.WaitFor(kUnauthenticated, old_token);
  EXPECT_EQ(CodeOf(client, kList, old_token), kUnauthenticated);
  EXPECT_EQ(CodeOf(client, kList, new_token), grpc::StatusCode::OK);
}

// Calls of one client until told to stop; counts those that fail.
class Caller {
 public:
  // `client` must outlive the caller.
  Caller(const Client* client, Metadata metadata)
      : client_(client),
        metadata_(std::move(metadata)),
        thread_([this] { Run(); }) {}
  ~Caller() { thread_.join(); }

  void Stop() { stopped_ = true; }
  int calls() const { return calls_; }
  int failed() const { return failed_; }

 private:
  void Run() {
    while (!stopped_) {
      grpc::ClientContext context;
      AddTo(metadata_, &context);
      v1::ListWeightsResponse response;
      const grpc::Status status =
          client_->stub()->ListWeights(&context, {}, &response);
      EXPECT_TRUE(status.ok()) << status.error_message();
      if (!status.ok()) ++failed_;
      ++calls_;
    }
  }

  const Client* const client_;
  const Metadata metadata_;
  std::atomic<bool> stopped_{false};
  std::atomic<int> calls_{0};
  std::atomic<int> failed_{0};
  std::thread thread_;
};

TEST(AccessReload, CallsGoOnWhileTablesComeAndGoGoodAndBad) {
  constexpr int kTables = 10;
  ServerOptions options;
  options.metrics_listen = "127.0.0.1:0";
  const TableClient user = Computing("user", {MatchThisUser()});
  const TableClient token = Computing("token", {MatchToken("t")});
  AccessServer server(TableOf({user, token}), options);
  const Client unix_client = server.NewUnixClient();
  const Client tcp_client = server.NewTcpClient();
  Caller by_user(&unix_client, {});
  Caller by_token(&tcp_client, WithToken("t"));
  for (int i = 0; i < kTables; ++i) {
    // A bad table may be replaced before it was read; the last one is not.
    server.WriteTable("{\"clients\": [{\"id\": \"half");
    const std::string extra = absl::StrCat("extra ", i);
    server.WriteTable(
        TableOf({token, user, Computing("extra", {MatchToken(extra)})}));
    server.WaitFor(grpc::StatusCode::OK, WithToken(extra));
  }
  server.WriteTable("{}");
  const int port = server.server().metrics_port();
  while (ScrapeMetric(port, "qgemm_access_reload_failures_total") == 0) {
    std::this_thread::yield();
  }
  for (const int calls = by_user.calls(); by_user.calls() < calls + 10;) {
    std::this_thread::yield();
  }
  by_user.Stop();
  by_token.Stop();
  EXPECT_EQ(by_user.failed(), 0);
  EXPECT_EQ(by_token.failed(), 0);
}

// A stream of requests, and an upload, that stay open and say nothing.
TEST(AccessReload, EndsOpenStreamsOfWhoLosesTheRight) {
  const std::vector<std::string> matches = {MatchThisUser()};
  AccessServer server(TableOf({{"anna", matches, {"compute", "load"}}}));
  const Client client = server.NewUnixClient();
  grpc::ClientContext stream_context, upload_context;
  const auto stream = client.stub()->GemmStream(&stream_context);
  v1::LoadWeightsResponse response;
  const auto upload = client.stub()->LoadWeights(&upload_context, &response);
  // They have been admitted: so has a later call of the connection.
  v1::GemmStreamRequest unknown;
  unknown.set_request_id(1);
  unknown.mutable_cancel();
  ASSERT_TRUE(stream->Write(unknown));
  EXPECT_EQ(CodeOf(client, kList), grpc::StatusCode::OK);

  server.WriteTable(TableOf({{"anna", matches, {"debug"}}}));

  v1::GemmStreamResponse answer;
  EXPECT_FALSE(stream->Read(&answer));
  const grpc::Status stream_end = stream->Finish();
  EXPECT_EQ(stream_end.error_code(), kDenied);
  EXPECT_THAT(stream_end.error_message(), HasSubstr("lacks the right compute"));
  const grpc::Status upload_end = upload->Finish();
  EXPECT_EQ(upload_end.error_code(), kDenied);
  EXPECT_THAT(upload_end.error_message(), HasSubstr("lacks the right load"));
}

TEST(AccessReload, LeavesOpenStreamsToWhoKeepsTheRight) {
  const std::vector<std::string> matches = {MatchThisUser()};
  AccessServer server(TableOf({{"anna", matches, {"compute"}}}));
  const Client client = server.NewUnixClient();
  grpc::ClientContext context;
  const auto stream = client.stub()->GemmStream(&context);
  server.WriteTable(TableOf({{"anna", matches, {"compute", "load"}},
                             Computing("extra", {MatchToken("t")})}));
  server.WaitFor(grpc::StatusCode::OK, WithToken("t"));
  v1::GemmStreamRequest unknown;
  unknown.set_request_id(1);
  unknown.mutable_cancel();
  EXPECT_TRUE(stream->Write(unknown));
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST(AccessStart, NeedsATableThatIsValid) {
  const TemporaryFolder folder;
  const std::string path = folder.File("access.json");
  const std::vector<std::string> flags = {"--listen=127.0.0.1:0",
                                          "--access_table=" + path};
  ChildServer without(flags);
  EXPECT_EQ(without.Wait(), 1);
  EXPECT_THAT(without.output(), HasSubstr("No such file"));
  std::ofstream(path) << "{\"clients\": [{\"id\": \"a\"}]}";
  ChildServer bad(flags);
  EXPECT_EQ(bad.Wait(), 1);
  EXPECT_THAT(bad.output(), AllOf(HasSubstr(path), HasSubstr("clients[0]")));
}

TEST(AccessLog, NamesWhoWasDeniedWhatAndNoToken) {
  const TemporaryFolder folder;
  const std::string path = folder.File("access.json");
  std::ofstream(path) << TableOf({Computing("anna", {MatchToken("hunter2")})});
  ChildServer server({"--listen=127.0.0.1:0", "--access_table=" + path});
  const Client client(server.WaitForAddress());
  EXPECT_EQ(
      CodeOf(client, "/qgemm.v1.Qgemm/UnloadWeights", WithToken("hunter2")),
      kDenied);
  EXPECT_EQ(CodeOf(client, kList, WithToken("hunter3")), kUnauthenticated);
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0);
  EXPECT_THAT(server.output(),
              AllOf(HasSubstr("call_denied method=UnloadWeights reason=right"),
                    HasSubstr("client=\"client anna\""),
                    HasSubstr("call_denied method=ListWeights reason=token"),
                    Not(HasSubstr("hunter"))));
}

TEST(AccessLog, NamesWhoLoadedAndUnloaded) {
  RandomGenerator random(FreshSeed());
  const TemporaryFolder folder;
  const std::string path = folder.File("access.json");
  std::ofstream(path) << TableOf({{"anna", {MatchThisUser()}, {"load"}}});
  ChildServer server({"--listen=127.0.0.1:0", "--access_table=" + path});
  const Client client(server.WaitForAddress());
  LoadLayer(client, 32, 64, &random);
  EXPECT_TRUE(client.Unload("layer").ok());
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0);
  for (const char* const event :
       {"upload_begun", "upload_committed", "weights_unloaded"}) {
    EXPECT_THAT(server.output(),
                ContainsRegex(absl::StrCat(event, " [^\n]*client anna")));
  }
}

}  // namespace
}  // namespace qgemm
