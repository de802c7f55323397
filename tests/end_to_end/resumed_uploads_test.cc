// SPDX-License-Identifier: Apache-2.0
//
// Uploads that are cut off and continued: by a second call, after the server
// was killed, by two clients at once, and not by those who may not.

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <future>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/time/time.h"
#include "tests/end_to_end/child_server.h"
#include "tests/end_to_end/cut_upload.h"
#include "tests/end_to_end/random_upload.h"
#include "tests/end_to_end/tenants.h"
#include "tests/end_to_end/test_server.h"
#include "tests/support/temporary_folder.h"

namespace qgemm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kK = 1024;

RandomUpload NewUpload(int64_t n, RandomGenerator* random) {
  WeightsSpec spec;
  spec.format = WireFormat::kQ4_0;
  spec.n = n;
  spec.k = kK;
  spec.has_bias = true;
  return MakeRandomUpload(spec, random);
}

std::string HexIdOf(const RandomUpload& upload) {
  return absl::BytesToHexString(IdOf(upload));
}

class ResumedUploadsTest : public ::testing::Test {
 protected:
  // Sends nine tenths of an upload and cuts it off. Returns what the server has
  // of it.
  int64_t CutOff(const Client& client, const RandomUpload& upload) {
    const Messages messages = WithId(upload, "layer");
    const size_t count = messages.size() * 9 / 10;
    OpenUpload open(client, messages, count);
    const int64_t sent =
        ChunkBytes(Messages(messages.begin(), messages.begin() + count));
    EXPECT_EQ(AwaitReceived(client, HexIdOf(upload), sent), sent);
    EXPECT_EQ(open.Cancel().error_code(), grpc::StatusCode::CANCELLED);
    return sent;
  }

  // Expects the layer to answer as one that was uploaded at once.
  void ExpectRight(const Client& client, const RandomUpload& upload) {
    TestServer reference;
    const Client other = reference.NewClient();
    ASSERT_TRUE(other.Load(ToMessages(upload, "layer")).ok());
    const v1::GemmRequest request = MakeGemm("layer", 3, kK, &random_);
    const auto answer = client.Gemm(request);
    ASSERT_TRUE(answer.ok()) << answer.status.error_message();
    EXPECT_EQ(answer.response.c(), other.Gemm(request).response.c());
  }

  RandomGenerator random_{FreshSeed()};
};

TEST_F(ResumedUploadsTest, GoesOnWhereItWasCutOff) {
  TestServer server;
  const Client client = server.NewClient();
  const RandomUpload upload = NewUpload(8192, &random_);
  CutOff(client, upload);
  const int64_t held = Query(client, HexIdOf(upload)).committed_bytes();
  EXPECT_THAT(client.List(), IsEmpty());

  const Messages rest = Rest(upload, "layer", held);
  const auto answer = client.Load(rest);

  ASSERT_TRUE(answer.ok()) << answer.status.error_message();
  EXPECT_FALSE(answer.response.deduplicated());
  EXPECT_LE(ChunkBytes(rest), 0.12 * TotalBytes(upload.spec));
  EXPECT_EQ(answer.response.weights().id(), HexIdOf(upload));
  EXPECT_TRUE(Query(client, HexIdOf(upload)).complete());
  ExpectRight(client, upload);
}

TEST_F(ResumedUploadsTest, BytesThatAreSentAgainArePassedOver) {
  TestServer server;
  const Client client = server.NewClient();
  const RandomUpload upload = NewUpload(2048, &random_);
  const int64_t sent = CutOff(client, upload);
  // From the middle, which is inside of a chunk; and from the first byte.
  Messages middle = Rest(upload, "layer", sent / 2 + 7);
  middle.resize(middle.size() / 2);
  OpenUpload open(client, middle, middle.size());
  EXPECT_EQ(open.Cancel().error_code(), grpc::StatusCode::CANCELLED);
  const auto answer = client.Load(WithId(upload, "layer"));
  ASSERT_TRUE(answer.ok()) << answer.status.error_message();
  ExpectRight(client, upload);
}

TEST_F(ResumedUploadsTest, MoreThanTheServerHasIsAborted) {
  TestServer server;
  const Client client = server.NewClient();
  const RandomUpload upload = NewUpload(2048, &random_);
  const int64_t sent = CutOff(client, upload);
  const auto answer = client.Load(Rest(upload, "layer", sent + 1));
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_THAT(answer.status.error_message(), HasSubstr("resume_bytes"));
  // Its bytes are there still.
  EXPECT_EQ(AwaitReceived(client, HexIdOf(upload), sent), sent);
  EXPECT_TRUE(client.Load(Rest(upload, "layer", sent)).ok());
}

TEST_F(ResumedUploadsTest, ANewNameAndItsConditionsCount) {
  TestServer server;
  const Client client = server.NewClient();
  const RandomUpload upload = NewUpload(2048, &random_);
  ASSERT_TRUE(client.Load(ToMessages(NewUpload(32, &random_), "taken")).ok());
  const int64_t sent = CutOff(client, upload);
  Messages rest = Rest(upload, "taken", sent);
  rest[0].mutable_header()->set_create_only(true);
  EXPECT_EQ(client.Load(rest).status.error_code(),
            grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_TRUE(client.Load(WithId(upload, "other")).ok());
  EXPECT_TRUE(client.Get("other").ok());
  EXPECT_FALSE(client.Get("layer").ok());
}

TEST_F(ResumedUploadsTest, WithoutAnIdNothingWaits) {
  TestServer server;
  const Client client = server.NewClient();
  const RandomUpload upload = NewUpload(2048, &random_);
  const Messages messages = ToMessages(upload, "layer");
  OpenUpload open(client, messages, messages.size() / 2);
  while (client.Info().weights_bytes() == 0) std::this_thread::yield();
  open.Cancel();
  while (client.Info().weights_bytes() != 0) std::this_thread::yield();
  EXPECT_EQ(Query(client, HexIdOf(upload)).committed_bytes(), 0);
}

TEST_F(ResumedUploadsTest, AWaitingUploadEndsAfterItsTime) {
  const TemporaryFolder folder;
  ServerOptions options;
  options.metrics_listen = "127.0.0.1:0";
  options.state_dir = folder.File("state");
  options.upload_linger = absl::Milliseconds(200);
  options.idle_timeout = absl::Milliseconds(400);  // it sweeps as often
  TestServer server(options);
  const Client client = server.NewClient();
  const RandomUpload upload = NewUpload(2048, &random_);
  const Messages messages = WithId(upload, "layer");
  OpenUpload open(client, messages, messages.size() / 2);
  AwaitReceived(client, HexIdOf(upload), 1);
  open.Cancel();
  while (client.Info().weights_bytes() != 0) std::this_thread::yield();
  EXPECT_EQ(Query(client, HexIdOf(upload)).committed_bytes(), 0);
  EXPECT_TRUE(std::filesystem::is_empty(folder.File("state/uploads")));
  EXPECT_EQ(
      ScrapeMetric(server.server().metrics_port(), "qgemm_interrupted_uploads"),
      0);
  EXPECT_TRUE(client.Load(messages).ok());
}

TEST_F(ResumedUploadsTest, AWaitingUploadGivesWayToOneThatHasNoRoom) {
  ServerOptions options;
  options.backend.kind = BackendKind::kCpu;
  options.weights_budget_bytes = 4 << 20;
  TestServer server(options);
  const Client client = server.NewClient();
  const RandomUpload upload = NewUpload(4096, &random_);
  CutOff(client, upload);
  EXPECT_GT(client.Info().weights_bytes(), 2 << 20);
  const grpc::Status loaded =
      LoadAfterCancel(client, ToMessages(NewUpload(4096, &random_), "b"));
  ASSERT_TRUE(loaded.ok()) << loaded.error_message();
  EXPECT_EQ(Query(client, HexIdOf(upload)).committed_bytes(), 0);
}

TEST_F(ResumedUploadsTest, TheSecondOfTwoWaitsAndSendsNothing) {
  TestServer server;
  const Client client = server.NewClient();
  const RandomUpload upload = NewUpload(4096, &random_);
  const Messages messages = WithId(upload, "layer");
  OpenUpload first(client, messages, messages.size() / 2);
  AwaitReceived(client, HexIdOf(upload), 1);
  Messages header = {WithId(upload, "second")[0]};
  OpenUpload second(server.NewClient(), header, 1);
  auto answer = std::async(std::launch::async, [&] { return second.Finish(); });
  first.SendFrom(messages, messages.size() / 2);
  const grpc::Status ended = first.Finish();
  EXPECT_TRUE(ended.ok()) << ended.error_message();
  const grpc::Status status = answer.get();
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_TRUE(second.response().deduplicated());
  EXPECT_THAT(client.Get("second").response.weights().names(),
              ElementsAre("layer", "second"));
}

TEST_F(ResumedUploadsTest, TheSecondOfTwoGoesOnIfTheFirstIsCutOff) {
  TestServer server;
  const Client client = server.NewClient();
  const RandomUpload upload = NewUpload(4096, &random_);
  const Messages messages = WithId(upload, "layer");
  OpenUpload first(client, messages, messages.size() / 2);
  AwaitReceived(client, HexIdOf(upload), 1);
  auto second = std::async(std::launch::async,
                           [&] { return server.NewClient().Load(messages); });
  first.Cancel();
  const auto answer = second.get();
  ASSERT_TRUE(answer.ok()) << answer.status.error_message();
  ExpectRight(client, upload);
}

TEST_F(ResumedUploadsTest, OneThatContinuesTakesOverAtOnce) {
  TestServer server;
  const Client client = server.NewClient();
  const RandomUpload upload = NewUpload(4096, &random_);
  const Messages messages = WithId(upload, "layer");
  OpenUpload first(client, messages, messages.size() / 2);
  const int64_t held = AwaitReceived(client, HexIdOf(upload), 1);
  const auto answer = server.NewClient().Load(Rest(upload, "layer", held));
  ASSERT_TRUE(answer.ok()) << answer.status.error_message();
  EXPECT_EQ(first.Finish().error_code(), grpc::StatusCode::ABORTED);
  ExpectRight(client, upload);
}

TEST_F(ResumedUploadsTest, GoesOnAfterTheServerWasKilled) {
  const TemporaryFolder folder;
  const std::vector<std::string> flags = {
      "--listen=127.0.0.1:0", "--backend=cpu",
      "--state_dir=" + folder.File("state")};
  const RandomUpload upload = NewUpload(120000, &random_);  // 69 MB
  {
    ChildServer server(flags);
    const Client client(server.WaitForAddress());
    const Messages messages = WithId(upload, "layer");
    const size_t count = messages.size() * 9 / 10;
    OpenUpload open(client, messages, count);
    AwaitReceived(
        client, HexIdOf(upload),
        ChunkBytes(Messages(messages.begin(), messages.begin() + count)));
    server.Signal(SIGKILL);
    server.Wait();
    EXPECT_EQ(open.Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  }
  ChildServer server(flags);
  const Client client(server.WaitForAddress());
  EXPECT_THAT(client.List(), IsEmpty());
  const int64_t held = Query(client, HexIdOf(upload)).committed_bytes();
  const Messages rest = Rest(upload, "layer", held);
  EXPECT_LE(ChunkBytes(rest), 0.12 * TotalBytes(upload.spec));
  const auto answer = client.Load(rest);
  ASSERT_TRUE(answer.ok()) << answer.status.error_message();
  ExpectRight(client, upload);
  EXPECT_TRUE(std::filesystem::is_empty(folder.File("state/uploads")));
}

TEST_F(ResumedUploadsTest, FindsWhatIsMissing) {
  TestServer server;
  const Client client = server.NewClient();
  const RandomUpload held = NewUpload(32, &random_);
  const RandomUpload other = NewUpload(64, &random_);
  ASSERT_TRUE(client.Load(ToMessages(held, "a")).ok());
  EXPECT_THAT(FindMissing(client, {HexIdOf(other), HexIdOf(held)}),
              ElementsAre(HexIdOf(other)));
  EXPECT_THAT(FindMissing(client, {}), IsEmpty());
  grpc::ClientContext context;
  v1::FindMissingWeightsRequest request;
  request.add_ids(HexIdOf(held));
  request.add_ids("a");
  v1::FindMissingWeightsResponse response;
  const grpc::Status status =
      client.stub()->FindMissingWeights(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("ids[1]"));
}

TEST_F(ResumedUploadsTest, OthersLearnNothingOfAnUploadOrALayer) {
  const TenantTable table({{"a", {"a/"}, {}}, {"b", {"b/"}, {}}});
  TestServer server(table.In(ServerOptions()));
  const Client a = ConnectAs("a", server.address());
  const Client b = ConnectAs("b", server.address());
  const RandomUpload upload = NewUpload(2048, &random_);
  const std::string id = HexIdOf(upload);
  const Messages messages = WithId(upload, "a/layer");
  OpenUpload open(a, messages, messages.size() / 2);
  const int64_t held = AwaitReceived(a, id, 1);
  // In progress, waiting, and complete.
  EXPECT_EQ(Query(b, id).committed_bytes(), 0);
  open.Cancel();
  EXPECT_EQ(Query(b, id).committed_bytes(), 0);
  EXPECT_EQ(b.Load(Rest(upload, "b/layer", held)).status.error_code(),
            grpc::StatusCode::ABORTED);
  ASSERT_TRUE(a.Load(messages).ok());
  EXPECT_TRUE(Query(a, id).complete());
  EXPECT_FALSE(Query(b, id).complete());
  EXPECT_THAT(FindMissing(b, {id}), ElementsAre(id));
  EXPECT_THAT(FindMissing(a, {id}), IsEmpty());
}

TEST_F(ResumedUploadsTest, WaitingUploadsCountForTheirClientsQuota) {
  const RandomUpload upload = NewUpload(2048, &random_);
  const RandomUpload other = NewUpload(2048, &random_);
  Tenant tenant = {"a", {"a/"}, {}};
  tenant.quota = R"({"weights_bytes": 2000000})";  // room for one of them
  const TenantTable table({tenant});
  TestServer server(table.In(ServerOptions()));
  const Client client = ConnectAs("a", server.address());
  const Messages messages = WithId(upload, "a/layer");
  OpenUpload open(client, messages, messages.size() / 2);
  AwaitReceived(client, HexIdOf(upload), 1);
  open.Cancel();
  EXPECT_GT(client.Info().weights_bytes(), 0);
  // It gives way to its client's other one.
  const grpc::Status loaded =
      LoadAfterCancel(client, ToMessages(other, "a/other"));
  ASSERT_TRUE(loaded.ok()) << loaded.error_message();
  EXPECT_EQ(Query(client, HexIdOf(upload)).committed_bytes(), 0);
  EXPECT_LE(client.Info().weights_bytes(), 2000000);
}

}  // namespace
}  // namespace qgemm
