// SPDX-License-Identifier: Apache-2.0
//
// Clients that do not read their answers: how much of the server's memory they
// hold, and for how long.

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>

#include "tests/end_to_end/stream_client.h"
#include "tests/end_to_end/test_server.h"
#include "tests/support/seeds.h"

namespace qgemm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kN = 1 << 13;
constexpr int64_t kK = 64;
// 4 MiB of C, far beyond the window of a call that is not read.
constexpr int64_t kRows = 256;
constexpr int64_t kAnswerBytes = kRows * kN * 2;

// A connection whose calls keep to the smallest window, and so leave with the
// server what they do not read.
std::shared_ptr<grpc::Channel> NarrowChannel(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 1 << 16);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetMaxReceiveMessageSize(-1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(),
                                   arguments);
}

// A Gemm whose answer stays with the server until Read.
class UnreadGemm {
 public:
  UnreadGemm(const Client& client, const v1::GemmRequest& request)
      : stub_(client.channel()) {
    call_ = stub_.PrepareCall(&context_, "/qgemm.v1.Qgemm/Gemm", &queue_);
    call_->StartCall(nullptr);
    Wait();
    const grpc::Slice slice(request.SerializeAsString());
    call_->WriteLast(grpc::ByteBuffer(&slice, 1), grpc::WriteOptions(),
                     nullptr);
    Wait();
  }
  ~UnreadGemm() {
    if (finished_) return;
    context_.TryCancel();
    Read();
    Finish();
  }

  void Read() {
    call_->Read(&answer_, nullptr);
    Wait();
  }
  grpc::Status Finish() {
    finished_ = true;
    grpc::Status status;
    call_->Finish(&status, nullptr);
    Wait();
    return status;
  }

 private:
  // Waits for the one operation in flight.
  void Wait() {
    void* tag;
    bool ok;
    queue_.Next(&tag, &ok);
  }

  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
  grpc::ByteBuffer answer_;
  bool finished_ = false;
};

class UnreadAnswersTest : public testing::Test {
 protected:
  explicit UnreadAnswersTest(const ServerOptions& options)
      : server_(options),
        client_(server_.NewClient()),
        reader_(NarrowChannel(server_.test_server().address())) {
    LoadLayer(client_, kN, kK, &random_);
    request_ = MakeGemm("layer", kRows, kK, &random_);
  }

  void AwaitNoLease() {
    while (server_.backend().leases() > 0) std::this_thread::yield();
  }

  double Metric(const std::string& prefix) {
    return ScrapeMetric(server_.test_server().server().metrics_port(), prefix);
  }

  RandomGenerator random_{FreshSeed()};
  HeldServer server_;
  const Client client_;
  const Client reader_;  // that does not read
  v1::GemmRequest request_;
};

ServerOptions WithShortTimeout() {
  ServerOptions options;
  options.idle_timeout = absl::Milliseconds(200);
  options.metrics_listen = "127.0.0.1:0";
  return options;
}

class IdleReaderTest : public UnreadAnswersTest {
 protected:
  IdleReaderTest() : UnreadAnswersTest(WithShortTimeout()) {}
};

TEST_F(IdleReaderTest, LosesTheAnswerOfAGemm) {
  UnreadGemm call(reader_, request_);
  server_.backend().WaitForCompleted(1);
  AwaitNoLease();
  call.Read();  // gRPC's client tells the end behind what it has
  EXPECT_EQ(call.Finish().error_code(), grpc::StatusCode::CANCELLED);
  // One row's answer waits for no window, however late its client is.
  EXPECT_TRUE(client_.Gemm(MakeGemm("layer", 1, kK, &random_)).ok());
  EXPECT_EQ(Metric("qgemm_calls_timed_out_total{kind=\"answer_idle\"}"), 1);
}

TEST_F(IdleReaderTest, LosesItsStream) {
  StreamClient stream(reader_);
  ASSERT_TRUE(stream.Write(ToMessage(1, request_)));
  ASSERT_TRUE(stream.Write(ToMessage(2, request_)));
  server_.backend().WaitForCompleted(2);
  AwaitNoLease();
  EXPECT_EQ(stream.Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(IdleReaderTest, KeepsAStreamThatOwesNothing) {
  v1::GemmRequest small = MakeGemm("layer", 1, kK, &random_);
  StreamClient idle(client_);
  ASSERT_TRUE(idle.Write(ToMessage(1, small)));
  EXPECT_EQ(idle.ReadOne().code(), grpc::StatusCode::OK);
  // As long as another client needs to lose its answer.
  UnreadGemm call(reader_, request_);
  server_.backend().WaitForCompleted(2);
  AwaitNoLease();
  ASSERT_TRUE(idle.Write(ToMessage(2, small)));
  EXPECT_EQ(idle.ReadOne().code(), grpc::StatusCode::OK);
}

ServerOptions WithSmallShare() {
  ServerOptions options;
  options.max_client_staging_bytes = 5 * kAnswerBytes / 2;
  options.metrics_listen = "127.0.0.1:0";
  return options;
}

class ClientShareTest : public UnreadAnswersTest {
 protected:
  ClientShareTest() : UnreadAnswersTest(WithSmallShare()) {}
};

TEST_F(ClientShareTest, CountsAnswersUntilTheyAreRead) {
  UnreadGemm first(reader_, request_);
  UnreadGemm second(reader_, request_);
  server_.backend().WaitForCompleted(2);

  const auto refused = client_.Gemm(request_);

  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.status.error_message(),
              AllOf(HasSubstr("unread answers"), HasSubstr("10485760"),
                    HasSubstr("--max_client_staging_bytes")));
  EXPECT_THAT(refused.status.error_details(),
              HasSubstr("google.rpc.RetryInfo"));
  EXPECT_EQ(server_.backend().enqueued(), 2);
  while (Metric("qgemm_answers_waiting ") != 2) std::this_thread::yield();
  EXPECT_EQ(Metric("qgemm_answers_waiting_bytes "), 2 * kAnswerBytes);
  first.Read();
  EXPECT_TRUE(first.Finish().ok());
  // gRPC gives the bytes back when it has sent them, which the client may see
  // before.
  grpc::Status status;
  do {
    status = client_.Gemm(request_).status;
  } while (status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST_F(ClientShareTest, CountsTheRequestsOfAStreamToo) {
  UnreadGemm first(reader_, request_);
  UnreadGemm second(reader_, request_);
  server_.backend().WaitForCompleted(2);
  StreamClient stream(client_);
  ASSERT_TRUE(stream.Write(ToMessage(7, request_)));
  const StreamedAnswer refused = stream.ReadOne();
  EXPECT_EQ(refused.code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.error.message(), HasSubstr("--max_client_staging_bytes"));
  EXPECT_GT(refused.error.retry_delay_ns(), 0u);
}

// The share without a flag of its own: half of the staging memory.
TEST(DefaultClientShareTest, IsHalfOfTheStagingMemory) {
  RandomGenerator random(FreshSeed());
  ServerOptions options;
  options.max_staging_bytes = 2000;
  TestServer server(options);
  const Client client = server.NewClient();
  LoadLayer(client, /*n=*/32, kK, &random);
  const auto refused = client.Gemm(MakeGemm("layer", 6, kK, &random));
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.status.error_message(),
              AllOf(HasSubstr("1152 bytes"), HasSubstr("1000"),
                    HasSubstr("--max_client_staging_bytes")));
}

TEST_F(ClientShareTest, RefusesWhatNoClientMayHoldForGood) {
  const auto refused = client_.Gemm(MakeGemm("layer", 3 * kRows, kK, &random_));
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.status.error_message(),
              AllOf(HasSubstr("split the rows"),
                    HasSubstr("--max_client_staging_bytes")));
  EXPECT_EQ(refused.status.error_details(), "");
}

}  // namespace
}  // namespace qgemm
