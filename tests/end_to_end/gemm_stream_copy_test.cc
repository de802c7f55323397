// SPDX-License-Identifier: Apache-2.0
//
// Long operands of a GemmStream, which are copied beside its completion queue,
// on a backend that holds the memory they are copied to.

#include <gtest/gtest.h>

#include <deque>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "tests/end_to_end/gemm_stream_fixture.h"
#include "tests/end_to_end/stream_client.h"
#include "tests/end_to_end/test_server.h"

namespace qgemm {
namespace {

// A has 5 MiB, beyond the 2 MiB from which on a copy is long.
constexpr int64_t kLongRows = 2560;
constexpr int64_t kLongK = 1024;
constexpr size_t kMib = size_t{1} << 20;
// Threads that copy.
constexpr int kCopiers = 2;

class CopyTest : public ::testing::Test {
 protected:
  explicit CopyTest(ServerOptions options = ServerOptions())
      : server_(WithMetrics(options)), client_(server_.NewClient()) {
    LoadLayer(client_, kN, kLongK, &random_);
    request_ = MakeGemm("layer", kLongRows, kLongK, &random_);
  }
  ~CopyTest() override { server_.backend().ReleaseStaging(); }

  static ServerOptions WithMetrics(ServerOptions options) {
    options.metrics_listen = "127.0.0.1:0";
    return options;
  }

  v1::GemmRequest Short() { return MakeGemm("layer", 1, kLongK, &random_); }
  FakeAsyncBackend& backend() { return server_.backend(); }
  double Metric(const std::string& prefix) {
    return ScrapeMetric(server_.test_server().server().metrics_port(), prefix);
  }
  double ReceivedBytes() {
    return Metric(
        "qgemm_transport_bytes_total{direction=\"received\",transport="
        "\"tcp\"}");
  }
  void AwaitStreams(int count) {
    while (Metric("qgemm_streams ") > count) std::this_thread::yield();
  }
  void HoldStaging() { backend().HoldStaging(static_cast<int64_t>(kMib)); }
  void ExpectNoLeaseAfterDrain() {
    server_.test_server().server().Drain(absl::InfiniteFuture());
    EXPECT_EQ(backend().leases(), 0);
  }

  RandomGenerator random_;
  HeldServer server_;
  const Client client_;
  v1::GemmRequest request_;
};

// Every mixture of short and long messages: a short one that takes long memory,
// a long one in the middle, a short one and a long one at the end.
TEST_F(CopyTest, LongFragmentsAreAnsweredAsGemmAnswers) {
  const std::string expected = client_.Gemm(request_).response.c();
  ASSERT_EQ(expected.size(), static_cast<size_t>(kLongRows * kN * 2));
  const std::vector<std::vector<size_t>> cuts = {
      {}, {0}, {100}, {100, 3 * kMib}, {2 * kMib, 4 * kMib}, {2 * kMib + 1}};
  StreamClient stream(client_);
  for (size_t i = 0; i < cuts.size(); ++i) {
    ASSERT_TRUE(stream.Write(ToMessages(i, request_, cuts[i])));
  }
  for (size_t i = 0; i < cuts.size(); ++i) {
    const StreamedAnswer answer = stream.ReadOne();
    EXPECT_EQ(answer.code(), grpc::StatusCode::OK) << answer.error.message();
    EXPECT_TRUE(answer.c == expected) << "request " << answer.id;
  }
  stream.WritesDone();
  EXPECT_TRUE(stream.Finish().ok());
}

// Messages of two requests in turn: the stream keeps their order over copies.
TEST_F(CopyTest, AShortMessageWaitsForTheLongCopyBeforeIt) {
  const std::string expected = client_.Gemm(request_).response.c();
  const auto first = ToMessages(1, request_, {3 * kMib, 3 * kMib + 9});
  const auto second = ToMessages(2, request_, {7, 4 * kMib});
  StreamClient stream(client_);
  for (size_t i = 0; i < first.size(); ++i) {
    ASSERT_TRUE(stream.Write(first[i]));
    ASSERT_TRUE(stream.Write(second[i]));
  }
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(stream.ReadOne().c == expected);
  }
}

// Some of these streams are on each completion queue.
TEST_F(CopyTest, OthersAreAnsweredMeanwhile) {
  constexpr int kStreams = 40;
  HoldStaging();
  std::deque<StreamClient> waiting;
  for (int i = 0; i < kStreams; ++i) {
    ASSERT_TRUE(waiting.emplace_back(client_).Write(
        ToMessages(1, request_, {100}).front()));
  }
  backend().WaitForHeldStaging(kCopiers);
  for (int i = 0; i < kStreams; ++i) EXPECT_TRUE(client_.Gemm(Short()).ok());
  StreamClient other(client_);
  ASSERT_TRUE(other.Write(ToMessage(2, Short())));
  EXPECT_EQ(other.ReadOne().code(), grpc::StatusCode::OK);
}

TEST_F(CopyTest, ARequestWithoutMemoryIsToldSoAndTheStreamGoesOn) {
  HoldStaging();
  StreamClient stream(client_);
  const auto messages = ToMessages(1, request_, {100, 3 * kMib});
  ASSERT_TRUE(stream.Write(messages.front()));
  backend().WaitForHeldStaging(1);
  backend().FailStaging(1, absl::ResourceExhaustedError("no staging"));
  backend().ReleaseStaging();
  const StreamedAnswer refused = stream.ReadOne();
  EXPECT_EQ(refused.code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_GT(refused.error.retry_delay_ns(), 0u);
  ASSERT_TRUE(stream.Write(messages[1]));
  ASSERT_TRUE(stream.Write(messages[2]));
  ASSERT_TRUE(stream.Write(ToMessage(1, request_)));
  EXPECT_EQ(stream.ReadOne().code(), grpc::StatusCode::OK);
}

// Cancelled while its copier takes memory.
TEST_F(CopyTest, ACallCancelledDuringItsCopyGivesItsMemoryBack) {
  HoldStaging();
  StreamClient stream(client_);
  ASSERT_TRUE(stream.Write(ToMessage(1, request_)));
  backend().WaitForHeldStaging(1);
  stream.Cancel();
  EXPECT_EQ(stream.Finish().error_code(), grpc::StatusCode::CANCELLED);
  AwaitStreams(0);
  backend().ReleaseStaging();
  ExpectNoLeaseAfterDrain();
  EXPECT_EQ(backend().enqueued(), 0);
}

// Cancelled while a fragment waits for a copier.
TEST_F(CopyTest, ACallCancelledBeforeItsCopyGivesItsMemoryBack) {
  const auto messages = ToMessages(1, request_, {100, 3 * kMib});
  StreamClient stream(client_);
  ASSERT_TRUE(stream.Write(messages[0]));
  while (backend().leases() < 1) std::this_thread::yield();
  HoldStaging();
  StreamClient blocking[kCopiers] = {StreamClient(client_),
                                     StreamClient(client_)};
  for (int i = 0; i < kCopiers; ++i) {
    ASSERT_TRUE(blocking[i].Write(ToMessage(1, request_)));
    backend().WaitForHeldStaging(i + 1);
  }
  const double received = ReceivedBytes();
  ASSERT_TRUE(stream.Write(messages[1]));
  while (ReceivedBytes() < received + 2 * kMib) std::this_thread::yield();
  stream.Cancel();
  EXPECT_EQ(stream.Finish().error_code(), grpc::StatusCode::CANCELLED);
  // By then the queue's thread has left the fragment to the copiers.
  AwaitStreams(kCopiers);
  backend().ReleaseStaging();
  for (StreamClient& each : blocking) {
    EXPECT_EQ(each.ReadOne().code(), grpc::StatusCode::OK);
  }
  ExpectNoLeaseAfterDrain();
  const std::vector<int64_t> rows = backend().enqueued_rows();
  EXPECT_EQ(std::accumulate(rows.begin(), rows.end(), int64_t{0}),
            kCopiers * kLongRows);
}

TEST_F(CopyTest, ADrainDuringACopyRefusesWhatHasComeInPart) {
  HoldStaging();
  StreamClient stream(client_);
  ASSERT_TRUE(stream.Write(ToMessages(1, request_, {100}).front()));
  backend().WaitForHeldStaging(1);
  std::thread drain(
      [this] { server_.test_server().server().Drain(absl::InfiniteFuture()); });
  EXPECT_EQ(stream.ReadOne().code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(stream.Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  backend().ReleaseStaging();
  drain.join();
  EXPECT_EQ(backend().leases(), 0);
}

class IdleCopyTest : public CopyTest {
 protected:
  IdleCopyTest() : CopyTest(WithShortTimeout()) {}

  static ServerOptions WithShortTimeout() {
    ServerOptions options;
    options.idle_timeout = absl::Milliseconds(200);
    return options;
  }
};

TEST_F(IdleCopyTest, AnOperandIsNotLateWhileACopyRuns) {
  HoldStaging();
  const auto messages = ToMessages(1, request_, {100, 3 * kMib});
  StreamClient stream(client_);
  ASSERT_TRUE(stream.Write(messages[0]));
  backend().WaitForHeldStaging(1);
  // Twice as long as another stream's operand needs to be late: the streams may
  // be on different queues, which are swept in turn.
  StreamClient late(client_);
  for (uint64_t id = 1; id <= 2; ++id) {
    ASSERT_TRUE(late.Write(ToMessages(id, Short(), {100}).front()));
    EXPECT_EQ(late.ReadOne().code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  }
  backend().ReleaseStaging();
  ASSERT_TRUE(stream.Write(messages[1]));
  ASSERT_TRUE(stream.Write(messages[2]));
  const StreamedAnswer answer = stream.ReadOne();
  EXPECT_EQ(answer.code(), grpc::StatusCode::OK) << answer.error.message();
}

}  // namespace
}  // namespace qgemm
