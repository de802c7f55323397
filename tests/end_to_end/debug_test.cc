// SPDX-License-Identifier: Apache-2.0
//
// The calls for tests and measurements: their answers, their refusals, and that
// a server without their flags has none of them.

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "kernels/matrix/backend.h"
#include "qgemm/v1/debug.grpc.pb.h"
#include "tests/end_to_end/raw_call.h"
#include "tests/end_to_end/test_server.h"

namespace qgemm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kN = 32;
constexpr int64_t kK = 64;
constexpr int64_t kMaxMessageBytes = 1 << 16;
constexpr uint64_t kMillisecond = 1'000'000;  // in nanoseconds
constexpr uint64_t kMinute = 60'000'000'000;

ServerOptions WithDebugging() {
  ServerOptions options;
  options.max_message_bytes = kMaxMessageBytes;
  options.enable_echo = true;
  options.enable_freeze = true;
  return options;
}

Answer<v1::EchoResponse> Echo(const Client& client, const std::string& a,
                              uint64_t answer_bytes) {
  grpc::ClientContext context;
  v1::EchoRequest request;
  request.set_a(a);
  request.set_answer_bytes(answer_bytes);
  Answer<v1::EchoResponse> answer;
  answer.status = v1::QgemmDebug::NewStub(client.channel())
                      ->Echo(&context, request, &answer.response);
  return answer;
}

grpc::Status Freeze(const Client& client, uint64_t duration_ns) {
  grpc::ClientContext context;
  v1::FreezeRequest request;
  request.set_duration_ns(duration_ns);
  v1::FreezeResponse response;
  return v1::QgemmDebug::NewStub(client.channel())
      ->Freeze(&context, request, &response);
}

std::string RandomBytes(int64_t size, RandomGenerator* random) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>((*random)());
  return bytes;
}

// A backend of which the staging alone works: leases are the test's own
// strings, in the order of the calls. Not thread-safe.
class StagingBackend final : public Backend {
 public:
  explicit StagingBackend(std::vector<std::string>* staging)
      : staging_(staging) {}

  absl::StatusOr<StagingLease> AcquireStaging(int64_t size_bytes) override {
    std::string& memory = staging_->at(next_++);
    EXPECT_EQ(size_bytes, static_cast<int64_t>(memory.size()));
    return StagingLease(reinterpret_cast<uint8_t*>(memory.data()), size_bytes,
                        nullptr);
  }

  absl::StatusOr<std::unique_ptr<WeightsBuilder>> NewBuilder() override {
    return absl::UnimplementedError("no builder");
  }
  int64_t EstimateResidentBytes(const WeightsShape&) const override {
    return 0;
  }
  absl::Status CheckSupport(const ResidentWeights&,
                            const MatmulSignature&) const override {
    return absl::OkStatus();
  }
  absl::Status Enqueue(GemmBatch, BatchCompletion) override {
    return absl::UnimplementedError("no launches");
  }
  BackendLimits limits() const override { return {}; }
  BackendDescription describe() const override { return {}; }
  BackendMemory memory() const override { return {}; }

 private:
  std::vector<std::string>* const staging_;
  size_t next_ = 0;
};

TEST(Echo, CopiesIntoStagingAndOutOfIt) {
  RandomGenerator random(FreshSeed());
  const std::string a = RandomBytes(RandomInt(1, 10'000, &random), &random);
  const std::string c = RandomBytes(RandomInt(1, 10'000, &random), &random);
  std::vector<std::string> staging = {std::string(a.size(), '\0'), c};
  TestServer server(WithDebugging(),
                    std::make_unique<StagingBackend>(&staging));
  const auto answer = Echo(server.NewClient(), a, c.size());
  ASSERT_TRUE(answer.ok()) << answer.status.error_message();
  EXPECT_EQ(staging[0], a);
  EXPECT_EQ(answer.response.c(), c);
  EXPECT_GT(answer.response.server_ns(), 0);
}

TEST(Echo, GivesItsStagingBack) {
  HeldServer server(WithDebugging());
  EXPECT_TRUE(Echo(server.NewClient(), "a", 1).ok());
  // An answer's memory goes back when gRPC has sent it, which the caller may
  // hear of before; a drain waits for that.
  server.test_server().server().Drain(absl::InfiniteFuture());
  EXPECT_EQ(server.backend().leases(), 0);
  EXPECT_EQ(server.backend().enqueued(), 0);
}

TEST(Echo, RefusesWhatAGemmWouldRefuse) {
  TestServer server(WithDebugging());
  const Client client = server.NewClient();
  constexpr uint64_t kMostBytes = kMaxMessageBytes - 128;  // an answer's rest
  const struct {
    std::string a;
    uint64_t answer_bytes;
    grpc::StatusCode code;
    std::string message;
  } cases[] = {
      {"", 1, grpc::StatusCode::INVALID_ARGUMENT, "a has 0 bytes"},
      {"a", 0, grpc::StatusCode::INVALID_ARGUMENT, "answer_bytes = 0"},
      {"a", kMostBytes + 1, grpc::StatusCode::RESOURCE_EXHAUSTED,
       "answer_bytes = 65409 is beyond 65408"},
      {"a", uint64_t{1} << 63, grpc::StatusCode::RESOURCE_EXHAUSTED,
       "answer_bytes = 9223372036854775808"},
      {"a", ~uint64_t{0}, grpc::StatusCode::RESOURCE_EXHAUSTED,
       "--max_message_bytes"},
      {std::string(kMaxMessageBytes, 'a'), 1,
       grpc::StatusCode::RESOURCE_EXHAUSTED, "65536"},
  };
  for (const auto& bad : cases) {
    SCOPED_TRACE(bad.message);
    const auto refused = Echo(client, bad.a, bad.answer_bytes);
    EXPECT_EQ(refused.status.error_code(), bad.code);
    EXPECT_THAT(refused.status.error_message(), HasSubstr(bad.message));
    EXPECT_THAT(refused.status.error_details(), Not(HasSubstr("RetryInfo")));
    EXPECT_TRUE(Echo(client, "a", kMostBytes).ok());
  }
}

TEST(Echo, ThatLacksStagingIsToBeTriedAgain) {
  HeldServer server(WithDebugging());
  const Client client = server.NewClient();
  server.backend().FailStaging(1, absl::ResourceExhaustedError("no staging"));
  const auto refused = Echo(client, "a", 1);
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.status.error_details(),
              HasSubstr("google.rpc.RetryInfo"));
  EXPECT_TRUE(Echo(client, "a", 1).ok());
}

TEST(Freeze, RefusesTimesBeyondItsLimits) {
  TestServer server(WithDebugging());
  const Client client = server.NewClient();
  for (const uint64_t duration_ns : {uint64_t{0}, kMillisecond - 1, kMinute + 1,
                                     uint64_t{1} << 63, ~uint64_t{0}}) {
    const grpc::Status refused = Freeze(client, duration_ns);
    EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(refused.error_message(),
                AllOf(HasSubstr(absl::StrCat("duration_ns = ", duration_ns)),
                      HasSubstr("between 1000000 (1 ms) and 60000000000")));
  }
  EXPECT_TRUE(Freeze(client, kMillisecond).ok());
}

TEST(Freeze, HoldsAGemmThatIsSentAfterIt) {
  RandomGenerator random(FreshSeed());
  TestServer server(WithDebugging());
  const Client client = server.NewClient();
  LoadLayer(client, kN, kK, &random);
  const v1::GemmRequest request = MakeGemm("layer", 1, kK, &random);
  constexpr absl::Duration kFreeze = absl::Milliseconds(200);
  const absl::Time start = absl::Now();
  ASSERT_TRUE(Freeze(client, absl::ToInt64Nanoseconds(kFreeze)).ok());

  const auto answer = client.Gemm(request);

  ASSERT_TRUE(answer.ok()) << answer.status.error_message();
  // The freeze began at `start` or later, and the request arrived no later
  // than its whole time on the server before its end.
  const absl::Time arrived_by =
      absl::Now() - absl::Nanoseconds(static_cast<int64_t>(
                        answer.response.timings().total_ns()));
  const auto queue = absl::Nanoseconds(
      static_cast<int64_t>(answer.response.timings().queue_ns()));
  EXPECT_GE(queue, kFreeze - (arrived_by - start) - absl::Nanoseconds(1));
}

TEST(Freeze, LetsAllElseGoOn) {
  RandomGenerator random(FreshSeed());
  ServerOptions options = WithDebugging();
  options.metrics_listen = "127.0.0.1:0";
  HeldServer server(options);
  const Client client = server.NewClient();
  ASSERT_TRUE(Freeze(client, kMinute).ok());
  LoadLayer(client, kN, kK, &random);
  const v1::GemmRequest request = MakeGemm("layer", 1, kK, &random);
  auto queued =
      std::async(std::launch::async, [&] { return client.Gemm(request); });
  const int port = server.test_server().server().metrics_port();
  while (ScrapeMetric(port, "qgemm_queue_requests") != 1 &&
         server.backend().enqueued() == 0) {
    std::this_thread::yield();
  }
  EXPECT_EQ(client.List().size(), 1);
  EXPECT_TRUE(Echo(client, "a", 1).ok());
  EXPECT_EQ(server.backend().enqueued(), 0);
  server.test_server().server().Drain(absl::InfiniteFuture());  // ends it
  EXPECT_TRUE(queued.get().ok());
}

TEST(DebugService, IsUnimplementedWithoutItsFlags) {
  for (const bool enable_echo : {false, true}) {
    for (const bool enable_freeze : {false, true}) {
      SCOPED_TRACE(absl::StrCat(enable_echo, " ", enable_freeze));
      ServerOptions options;
      options.enable_echo = enable_echo;
      options.enable_freeze = enable_freeze;
      TestServer server(options);
      const Client client = server.NewClient();
      const grpc::Status echoed = Echo(client, "a", 1).status;
      EXPECT_EQ(echoed.ok(), enable_echo);
      const grpc::Status frozen = Freeze(client, kMillisecond);
      EXPECT_EQ(frozen.ok(), enable_freeze);
      if (!enable_echo) {
        EXPECT_EQ(echoed.error_code(), grpc::StatusCode::UNIMPLEMENTED);
        EXPECT_THAT(echoed.error_message(), HasSubstr("--enable_echo"));
      }
      if (!enable_freeze) {
        EXPECT_EQ(frozen.error_code(), grpc::StatusCode::UNIMPLEMENTED);
        EXPECT_THAT(frozen.error_message(), HasSubstr("--enable_freeze"));
      }
    }
  }
}

TEST(DebugService, RefusesWhileTheServerDrains) {
  RandomGenerator random(FreshSeed());
  HeldServer server(WithDebugging());
  const Client client = server.NewClient();
  LoadLayer(client, kN, kK, &random);
  server.backend().Hold();
  std::thread call([&] {
    EXPECT_TRUE(client.Gemm(MakeGemm("layer", 1, kK, &random)).ok());
  });
  server.backend().WaitForHeld(1);
  std::thread drain(
      [&] { server.test_server().server().Drain(absl::InfiniteFuture()); });
  grpc::Status echoed;
  while (echoed.ok()) echoed = Echo(client, "a", 1).status;
  EXPECT_EQ(echoed.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(Freeze(client, kMillisecond).error_code(),
            grpc::StatusCode::UNAVAILABLE);
  server.backend().ReleaseAll();
  drain.join();
  call.join();
}

TEST(DebugService, IsCountedByMethodAndCode) {
  ServerOptions options = WithDebugging();
  options.metrics_listen = "127.0.0.1:0";
  TestServer server(options);
  const Client client = server.NewClient();
  EXPECT_TRUE(Echo(client, "a", 1).ok());
  EXPECT_FALSE(Echo(client, "", 1).ok());
  EXPECT_TRUE(Freeze(client, kMillisecond).ok());
  const int port = server.server().metrics_port();
  for (const char* const labels :
       {R"(code="OK",method="Echo")", R"(code="OK",method="Freeze")",
        R"(code="INVALID_ARGUMENT",method="Echo")"}) {
    EXPECT_EQ(ScrapeMetric(port, absl::StrCat("qgemm_rpcs_total{", labels)), 1)
        << labels;
  }
}

// More of them than calls are awaited: none takes another's place.
TEST(UnknownMethod, IsUnimplementedAndTheServerServesOn) {
  constexpr int kCalls = 200;
  TestServer server;
  const Client client = server.NewClient();
  for (int i = 0; i < kCalls; ++i) {
    for (const char* const method :
         {"/qgemm.v1.Qgemm/Divide", "/nobody.Nothing/Does"}) {
      const grpc::Status status =
          CallRaw(client.channel(), method, "operand").status;
      EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
    }
  }
  client.Info();
}

}  // namespace
}  // namespace qgemm
