// SPDX-License-Identifier: Apache-2.0
//
// Bounds: of the queue, of messages, of uploads, of memory, of time. What is
// refused names its limit; what comes after is served.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/end_to_end/random_upload.h"
#include "tests/end_to_end/test_server.h"

namespace qgemm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kN = 32;
constexpr int64_t kK = 64;
// The default of SchedulerOptions.
constexpr int kLaunches = 2;

using GemmFuture = std::future<Answer<v1::GemmResponse>>;

GemmFuture StartGemm(const Client& client, const v1::GemmRequest& request) {
  return std::async(std::launch::async,
                    [&client, request] { return client.Gemm(request); });
}

// Fills every launch slot of a held backend, one request each.
std::vector<GemmFuture> FillLaunches(HeldServer* server, const Client& client,
                                     const v1::GemmRequest& request) {
  server->backend().Hold();
  std::vector<GemmFuture> futures;
  for (int i = 1; i <= kLaunches; ++i) {
    futures.push_back(StartGemm(client, request));
    server->backend().WaitForHeld(i);
  }
  return futures;
}

ServerOptions WithMetrics() {
  ServerOptions options;
  options.metrics_listen = "127.0.0.1:0";
  return options;
}

// Returns when as many requests wait in the queue.
void WaitForQueue(HeldServer* server, double requests) {
  const int port = server->test_server().server().metrics_port();
  while (ScrapeMetric(port, "qgemm_queue_requests") != requests) {
    std::this_thread::yield();
  }
}

TEST(QueueLimit, RefusesWhatDoesNotFitWithTheTimeToRetry) {
  RandomGenerator random(FreshSeed());
  ServerOptions options = WithMetrics();
  options.scheduler.max_queued_requests = 1;
  HeldServer server(options);
  const Client client = server.NewClient();
  LoadLayer(client, kN, kK, &random);
  const v1::GemmRequest request = MakeGemm("layer", 1, kK, &random);
  std::vector<GemmFuture> accepted = FillLaunches(&server, client, request);
  accepted.push_back(StartGemm(client, request));
  WaitForQueue(&server, 1);

  const auto refused = client.Gemm(request);

  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.status.error_message(),
              AllOf(HasSubstr("queue is full"), HasSubstr("limit is 1")));
  EXPECT_THAT(refused.status.error_details(),
              HasSubstr("google.rpc.RetryInfo"));
  server.backend().ReleaseAll();
  for (GemmFuture& future : accepted) {
    const auto answer = future.get();
    EXPECT_TRUE(answer.ok()) << answer.status.error_message();
  }
  EXPECT_TRUE(client.Gemm(request).ok());
}

TEST(ClientQuota, CountsAllClientsOfAnIdentity) {
  RandomGenerator random(FreshSeed());
  ServerOptions options = WithMetrics();
  options.scheduler.max_client_queued_rows = 3;
  HeldServer server(options);
  const Client client = server.NewClient();
  LoadLayer(client, kN, kK, &random);
  v1::GemmRequest request = MakeGemm("layer", 2, kK, &random);
  request.set_client_id("greedy");
  std::vector<GemmFuture> accepted = FillLaunches(&server, client, request);
  accepted.push_back(StartGemm(client, request));
  WaitForQueue(&server, 1);

  request.set_client_id("invented");
  const auto refused = client.Gemm(request);

  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.status.error_message(),
              AllOf(HasSubstr("is over its quota"),
                    HasSubstr("(--max_client_queued_rows) is 3")));
  EXPECT_THAT(refused.status.error_details(),
              HasSubstr("google.rpc.RetryInfo"));
  server.backend().ReleaseAll();
  for (GemmFuture& future : accepted) {
    const auto answer = future.get();
    EXPECT_TRUE(answer.ok()) << answer.status.error_message();
  }
}

TEST(QueueLimit, RequestThatNeverFitsIsNotToBeRetried) {
  RandomGenerator random(FreshSeed());
  ServerOptions options = WithMetrics();
  options.scheduler.max_queued_bytes = 1000;
  HeldServer server(options);
  const Client client = server.NewClient();
  LoadLayer(client, kN, kK, &random);
  EXPECT_TRUE(client.Gemm(MakeGemm("layer", 1, kK, &random)).ok());

  const auto refused = client.Gemm(MakeGemm("layer", 16, kK, &random));

  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(refused.status.error_message(),
              HasSubstr("--max_queued_bytes is 1000"));
  EXPECT_EQ(refused.status.error_details(), "");
}

TEST(ClientId, ThatIsNotLegalIsRefused) {
  RandomGenerator random(FreshSeed());
  HeldServer server(WithMetrics());
  const Client client = server.NewClient();
  LoadLayer(client, kN, kK, &random);
  v1::GemmRequest request = MakeGemm("layer", 1, kK, &random);
  request.set_client_id("a b");
  const auto refused = client.Gemm(request);
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(refused.status.error_message(), HasSubstr("client_id = \"a b\""));
}

// Chunks of a large request give what its rows give alone, bit for bit.
TEST(LargeRequest, RunsInChunksAndGivesTheSameBits) {
  constexpr int64_t kRows = 1100;
  RandomGenerator random(FreshSeed());
  HeldServer server(WithMetrics());
  const Client client = server.NewClient();
  LoadLayer(client, kN, kK, &random);
  const v1::GemmRequest request = MakeGemm("layer", kRows, kK, &random);

  const auto whole = client.Gemm(request);

  ASSERT_TRUE(whole.ok()) << whole.status.error_message();
  EXPECT_GE(server.backend().enqueued(), 3);
  EXPECT_LT(whole.response.timings().launch_rows(), kRows);
  const size_t a_row_bytes = request.a().size() / kRows;
  const size_t c_row_bytes = whole.response.c().size() / kRows;
  for (const size_t row : {0, 383, 384, 767, 768, 1099}) {
    v1::GemmRequest one = request;
    one.set_m(1);
    one.set_a(request.a().substr(row * a_row_bytes, a_row_bytes));
    const auto alone = client.Gemm(one);
    ASSERT_TRUE(alone.ok()) << alone.status.error_message();
    EXPECT_EQ(alone.response.c(),
              whole.response.c().substr(row * c_row_bytes, c_row_bytes))
        << "row " << row;
  }
}

TEST(Deadline, IsNotComputedAfterItPassed) {
  RandomGenerator random(FreshSeed());
  HeldServer server(WithMetrics());
  const Client client = server.NewClient();
  LoadLayer(client, kN, kK, &random);
  const v1::GemmRequest request = MakeGemm("layer", 1, kK, &random);
  std::vector<GemmFuture> accepted = FillLaunches(&server, client, request);

  constexpr std::chrono::milliseconds kTimeout(500);
  std::future<grpc::Status> late = std::async(std::launch::async, [&] {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kTimeout);
    v1::GemmResponse response;
    return client.stub()->Gemm(&context, request, &response);
  });
  WaitForQueue(&server, 1);
  // The server counts the timeout from when it took the request, by now; twice
  // covers the coarser steps in which it travels. The launches stay held.
  EXPECT_EQ(accepted.front().wait_for(2 * kTimeout),
            std::future_status::timeout);
  EXPECT_EQ(late.get().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);

  server.backend().ReleaseAll();
  for (GemmFuture& future : accepted) EXPECT_TRUE(future.get().ok());
  // Later than it in the queue: what was to become of it has become.
  EXPECT_TRUE(client.Gemm(request).ok());
  EXPECT_EQ(server.backend().enqueued(), kLaunches + 1);
}

TEST(Cancellation, GivesItsMemoryBack) {
  RandomGenerator random(FreshSeed());
  HeldServer server(WithMetrics());
  const Client client = server.NewClient();
  LoadLayer(client, kN, kK, &random);
  const v1::GemmRequest request = MakeGemm("layer", 1, kK, &random);
  std::vector<GemmFuture> accepted = FillLaunches(&server, client, request);

  grpc::ClientContext context;
  std::future<grpc::Status> cancelled = std::async(std::launch::async, [&] {
    v1::GemmResponse response;
    return client.stub()->Gemm(&context, request, &response);
  });
  WaitForQueue(&server, 1);
  context.TryCancel();
  EXPECT_EQ(cancelled.get().error_code(), grpc::StatusCode::CANCELLED);
  server.backend().ReleaseAll();
  for (GemmFuture& future : accepted) EXPECT_TRUE(future.get().ok());
  EXPECT_TRUE(client.Gemm(request).ok());
  // An answer's memory goes back when gRPC has sent it, which the caller may
  // hear of before; a drain waits for that.
  server.test_server().server().Drain(absl::InfiniteFuture());
  EXPECT_EQ(server.backend().leases(), 0);
}

TEST(Backend, FailsOnlyTheRequestsOfTheLaunch) {
  RandomGenerator random(FreshSeed());
  HeldServer server;
  const Client client = server.NewClient();
  LoadLayer(client, kN, kK, &random);
  const v1::GemmRequest request = MakeGemm("layer", 1, kK, &random);
  server.backend().FailCompletions(1, absl::InternalError("a broken launch"));
  const auto failed = client.Gemm(request);
  EXPECT_EQ(failed.status.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_THAT(failed.status.error_message(), HasSubstr("a broken launch"));
  EXPECT_TRUE(client.Gemm(request).ok());
}

TEST(Backend, ThatLacksStagingIsToBeTriedAgain) {
  RandomGenerator random(FreshSeed());
  HeldServer server;
  const Client client = server.NewClient();
  LoadLayer(client, kN, kK, &random);
  const v1::GemmRequest request = MakeGemm("layer", 1, kK, &random);
  server.backend().FailStaging(1, absl::ResourceExhaustedError("no staging"));
  const auto refused = client.Gemm(request);
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.status.error_details(),
              HasSubstr("google.rpc.RetryInfo"));
  EXPECT_TRUE(client.Gemm(request).ok());
}

TEST(MessageLimit, RefusesAnAnswerBeyondItBeforeItIsComputed) {
  RandomGenerator random(FreshSeed());
  ServerOptions options;
  options.max_message_bytes = 1 << 16;
  HeldServer server(options);
  const Client client = server.NewClient();
  LoadLayer(client, /*n=*/1024, kK, &random);
  // 32 rows of 1024 fp16 are the limit, and an answer holds more than that.
  const auto refused = client.Gemm(MakeGemm("layer", 32, kK, &random));
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.status.error_message(),
              AllOf(HasSubstr("65536"), HasSubstr("--max_message_bytes"),
                    HasSubstr("split the rows")));
  EXPECT_THAT(refused.status.error_details(), Not(HasSubstr("RetryInfo")));
  EXPECT_EQ(server.backend().enqueued(), 0);
  EXPECT_TRUE(client.Gemm(MakeGemm("layer", 31, kK, &random)).ok());
}

TEST(MessageLimit, RefusesARequestBeyondIt) {
  RandomGenerator random(FreshSeed());
  ServerOptions options;
  options.max_message_bytes = 1 << 16;
  TestServer server(options);
  const Client client = server.NewClient();
  LoadLayer(client, kN, /*k=*/1024, &random);
  const auto refused = client.Gemm(MakeGemm("layer", 32, 1024, &random));
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.status.error_message(), HasSubstr("65536"));
  EXPECT_TRUE(client.Gemm(MakeGemm("layer", 31, 1024, &random)).ok());
}

TEST(UploadLimit, RefusesOneMoreAndTakesItWhenAPlaceIsFree) {
  RandomGenerator random(FreshSeed());
  ServerOptions options;
  options.max_uploads = 1;
  TestServer server(options);
  const Client client = server.NewClient();
  WeightsSpec spec;
  spec.format = WireFormat::kQ4_0;
  spec.n = kN;
  spec.k = kK;
  const auto messages = ToMessages(MakeRandomUpload(spec, &random), "layer");
  const uint64_t before = client.Info().weights_bytes();
  grpc::ClientContext context;
  v1::LoadWeightsResponse response;
  const auto writer = client.stub()->LoadWeights(&context, &response);
  writer->Write(messages[0]);
  while (client.Info().weights_bytes() == before) std::this_thread::yield();

  const auto refused = client.Load(messages);

  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.status.error_message(), HasSubstr("--max_uploads"));
  EXPECT_THAT(refused.status.error_details(),
              HasSubstr("google.rpc.RetryInfo"));
  for (size_t i = 1; i < messages.size(); ++i) writer->Write(messages[i]);
  writer->WritesDone();
  EXPECT_TRUE(writer->Finish().ok());
  EXPECT_TRUE(client.Load(messages).ok());
}

TEST(WeightsBudget, RefusesALayerBeyondItAndServesTheOthers) {
  RandomGenerator random(FreshSeed());
  ServerOptions options;
  options.weights_budget_bytes = 64 << 10;
  TestServer server(options);
  const Client client = server.NewClient();
  LoadLayer(client, kN, kK, &random);
  WeightsSpec spec;
  spec.format = WireFormat::kQ4_0;
  spec.n = 1024;
  spec.k = 1024;
  const uint64_t before = client.Info().weights_bytes();

  const auto refused =
      client.Load(ToMessages(MakeRandomUpload(spec, &random), "large"));

  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.status.error_message(), HasSubstr("65536"));
  EXPECT_EQ(client.Info().weights_bytes(), before);
  EXPECT_TRUE(client.Gemm(MakeGemm("layer", 1, kK, &random)).ok());
}

}  // namespace
}  // namespace qgemm
