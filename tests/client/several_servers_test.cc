// SPDX-License-Identifier: Apache-2.0
//
// One client of several servers: where calls go, what becomes of them when a
// server goes, and weights that all servers are to have.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "qgemm/client.h"
#include "rpc/grpc_status.h"
#include "tests/client/fake_service.h"

namespace qgemm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Long enough that a test fails by its own timeout, not by this.
constexpr absl::Duration kFar = absl::Minutes(5);

grpc::Status Unavailable() {
  return grpc::Status(grpc::StatusCode::UNAVAILABLE, "draining");
}

class SeveralServersTest : public testing::Test {
 protected:
  SeveralServersTest() : a_(16) {
    // A pause before a retry would be noticed: it lasts longer than the test.
    options_.connect_timeout = kFar;
    options_.retry.initial_backoff = 2 * kFar;
    options_.retry.max_backoff = 2 * kFar;
    for (FakeService* service : {&first_, &second_}) {
      service->set_stream([](auto*) { return grpc::Status::OK; });
    }
  }

  std::string Targets() const {
    return absl::StrCat(first_.address(), ",", second_.address());
  }

  std::unique_ptr<Client> Connect() const { return Connect(Targets()); }
  std::unique_ptr<Client> Connect(const std::string& targets) const {
    auto client = Client::Connect(targets, options_);
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }

  GemmRequest Request(int64_t m = 1) const {
    GemmRequest request;
    request.weights = "layer";
    request.m = m;
    request.a = absl::MakeConstSpan(a_).first(m * 2);
    return request;
  }

  static DenseUpload Dense(const std::vector<float>& values) {
    DenseUpload dense;
    dense.n = 1;
    dense.k = static_cast<int64_t>(values.size());
    dense.SetValues(values);
    return dense;
  }

  std::vector<uint8_t> a_;
  FakeService first_;
  FakeService second_;
  ClientOptions options_;
};

TEST_F(SeveralServersTest, CallsOneAfterTheOtherAreSpread) {
  const auto client = Connect();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(client->Gemm(Request()).ok());
  EXPECT_EQ(first_.calls(), 5);
  EXPECT_EQ(second_.calls(), 5);
}

// The first server holds one call; all others find the second one idle.
TEST_F(SeveralServersTest, TheFasterServerGetsMoreCalls) {
  const auto client = Connect();
  first_.CloseGate();
  auto held = client->GemmFuture(Request());
  first_.AwaitAtGate(1);
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(client->Gemm(Request()).ok());
  EXPECT_EQ(second_.calls(), 20);
  EXPECT_EQ(first_.calls(), 1);
  first_.OpenGate();
  EXPECT_TRUE(held.get().ok());
}

// A call of 8 rows outweighs seven of one.
TEST_F(SeveralServersTest, WorkIsCountedInRows) {
  const auto client = Connect();
  first_.CloseGate();
  second_.CloseGate();
  std::vector<std::future<absl::StatusOr<GemmResult>>> calls;
  calls.push_back(client->GemmFuture(Request(8)));
  for (int i = 0; i < 7; ++i) calls.push_back(client->GemmFuture(Request(1)));
  first_.AwaitAtGate(1);
  second_.AwaitAtGate(7);
  first_.OpenGate();
  second_.OpenGate();
  for (auto& call : calls) EXPECT_TRUE(call.get().ok());
}

TEST_F(SeveralServersTest, AnUnavailableServersCallGoesToAnotherAtOnce) {
  const auto client = Connect();
  first_.FailNext(1000, Unavailable());
  for (int i = 0; i < 10; ++i) {
    const auto result = client->Gemm(Request());
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_LE(result->attempts, 2);
  }
  EXPECT_EQ(second_.calls(), 10);
}

// Without the mark a server that fails at once would be the idle one, and each
// call would begin there.
TEST_F(SeveralServersTest, AServerThatFailedIsAvoided) {
  const auto client = Connect();
  first_.FailNext(1 << 20, Unavailable());
  constexpr int kCalls = 50;
  const absl::Time start = absl::Now();
  for (int i = 0; i < kCalls; ++i) {
    ASSERT_TRUE(client->Gemm(Request()).ok());
  }
  // Once, and again after each second.
  EXPECT_LE(first_.calls(), 1 + (absl::Now() - start) / absl::Seconds(1));
  EXPECT_EQ(second_.calls(), kCalls);
}

TEST_F(SeveralServersTest, AServerThatRecoveredIsAskedAgain) {
  const auto client = Connect();
  first_.FailNext(1, Unavailable());
  while (first_.calls() < 2) ASSERT_TRUE(client->Gemm(Request()).ok());
}

TEST_F(SeveralServersTest, WhenAllFailTheCallPausesAsForOne) {
  options_.retry.initial_backoff = absl::Milliseconds(1);
  options_.retry.max_backoff = absl::Milliseconds(1);
  options_.retry.max_attempts = 4;
  const auto client = Connect();
  first_.FailNext(1000, Unavailable());
  second_.FailNext(1000, Unavailable());
  EXPECT_EQ(client->Gemm(Request()).status(),
            absl::UnavailableError("draining"));
  EXPECT_EQ(first_.calls(), 2);
  EXPECT_EQ(second_.calls(), 2);
}

TEST_F(SeveralServersTest, FailOverKeepsThePolicysAttempts) {
  options_.retry.max_attempts = 1;
  const auto client = Connect();
  first_.FailNext(1, Unavailable());
  second_.FailNext(1, Unavailable());
  EXPECT_TRUE(absl::IsUnavailable(client->Gemm(Request()).status()));
  EXPECT_EQ(first_.calls() + second_.calls(), 1);
}

TEST_F(SeveralServersTest, OtherErrorsAreOneServersWord) {
  const auto client = Connect();
  for (FakeService* service : {&first_, &second_}) {
    service->FailNext(
        1, grpc::Status(grpc::StatusCode::NOT_FOUND, "no such weights"));
  }
  EXPECT_TRUE(absl::IsNotFound(client->Gemm(Request()).status()));
  EXPECT_EQ(first_.calls() + second_.calls(), 1);
}

// Calls of four threads over the whole life of one server's end and return.
TEST_F(SeveralServersTest, NoCallFailsWhenAServerGoesAndComesBack) {
  auto leaving = std::make_unique<FakeService>();
  FakeService::Listener same_port;
  same_port.port = leaving->port();
  const auto client =
      Connect(absl::StrCat(leaving->address(), ",", second_.address()));
  std::atomic<bool> stop{false};
  std::atomic<int> failed{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      while (!stop) failed += client->Gemm(Request()).ok() ? 0 : 1;
    });
  }
  while (leaving->calls() < 100) std::this_thread::yield();
  leaving->CloseGate();
  leaving->AwaitAtGate(1);
  leaving->Stop();  // with a call in flight
  const int before = second_.calls();
  while (second_.calls() < before + 100) std::this_thread::yield();
  leaving = std::make_unique<FakeService>(same_port);
  while (leaving->calls() < 100) std::this_thread::yield();
  stop = true;
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(failed, 0);
}

TEST_F(SeveralServersTest, ConnectsIfOneServerIsThere) {
  const auto client =
      Connect(absl::StrCat("unix:/nobody/here,", second_.unix_address()));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(client->Gemm(Request()).ok());
  EXPECT_EQ(second_.calls(), 3);
}

TEST_F(SeveralServersTest, ConnectionsTellWhatIsThere) {
  options_.channels = 2;
  const auto client =
      Connect(absl::StrCat("unix:/nobody/here,", second_.unix_address()));
  second_.CloseGate();
  auto call = client->GemmFuture(Request(5));
  second_.AwaitAtGate(1);
  const auto connections = client->Connections();
  ASSERT_EQ(connections.size(), 2u);
  EXPECT_EQ(connections[0].address, "unix:/nobody/here");
  EXPECT_EQ(connections[0].connected, 0);
  EXPECT_EQ(connections[0].rows_in_flight, 0);
  EXPECT_EQ(connections[1].address, second_.unix_address());
  EXPECT_EQ(connections[1].connected, 2);
  EXPECT_EQ(connections[1].rows_in_flight, 5);
  second_.OpenGate();
  EXPECT_TRUE(call.get().ok());
}

TEST_F(SeveralServersTest, ConnectNamesEachServersReasonIfNoneIsThere) {
  options_.connect_timeout = absl::Milliseconds(50);
  const absl::Status status =
      Client::Connect("unix:/nobody/here,unix:/nor/here", options_).status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nobody/here"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("unix:/nor/here: "));
}

TEST_F(SeveralServersTest, ADnsNameIsItsServers) {
  const auto client = Connect(absl::StrCat("dns:///localhost:", first_.port()));
  EXPECT_TRUE(client->Gemm(Request()).ok());
  EXPECT_EQ(first_.calls(), 1);
}

TEST_F(SeveralServersTest, WeightsAreLoadedToEveryServer) {
  const auto client = Connect();
  const std::vector<float> values(8, 1.5f);
  LoadOptions options;
  options.name = "layer";
  const auto result = client->LoadWeights(Dense(values), options);
  ASSERT_TRUE(result.ok()) << result.status();
  for (const FakeService* service : {&first_, &second_}) {
    EXPECT_EQ(service->header().name(), "layer");
    EXPECT_EQ(service->header().sha256(), first_.header().sha256());
    ASSERT_EQ(service->chunks().size(), 1u);
    EXPECT_EQ(service->chunks()[0].bytes(), first_.chunks()[0].bytes());
  }
}

TEST_F(SeveralServersTest, ALoadIsDeduplicatedIfAllServersHaveTheWeights) {
  const auto client = Connect();
  const std::vector<float> values(8);
  first_.set_deduplicates(true);
  EXPECT_FALSE(client->LoadWeights(Dense(values))->deduplicated);
  second_.set_deduplicates(true);
  EXPECT_TRUE(client->LoadWeights(Dense(values))->deduplicated);
}

TEST_F(SeveralServersTest, ALoadNamesTheServersThatItFailedAt) {
  const auto client = Connect();
  first_.FailNext(1, grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED,
                                  "no memory is left"));
  const std::vector<float> values(8);
  EXPECT_EQ(client->LoadWeights(Dense(values)).status(),
            absl::ResourceExhaustedError(
                absl::StrCat("failed at 1 of 2 servers: ", first_.address(),
                             ": RESOURCE_EXHAUSTED: no memory is left")));
  EXPECT_EQ(second_.chunks().size(), 1u);  // it has them all the same
}

// Each server waits for the other one to have its header.
TEST_F(SeveralServersTest, LoadsGoToAllServersAtOnce) {
  const auto client = Connect();
  first_.CloseGate();
  second_.CloseGate();
  const std::vector<float> values(8);
  auto load = std::async(std::launch::async,
                         [&] { return client->LoadWeights(Dense(values)); });
  first_.AwaitAtGate(1);
  second_.AwaitAtGate(1);
  first_.OpenGate();
  second_.OpenGate();
  const auto result = load.get();
  EXPECT_TRUE(result.ok()) << result.status();
}

TEST_F(SeveralServersTest, ALoadIsReadOnceForAllServersAndAgainForARetry) {
  options_.retry.initial_backoff = absl::Milliseconds(1);
  const auto client = Connect();
  const std::vector<float> values(8);
  WeightsStream stream;
  stream.spec = SpecOf(Dense(values));
  int rewound = 0;
  stream.rewind = [&rewound] {
    ++rewound;
    return absl::OkStatus();
  };
  int64_t read_bytes = 0;
  stream.read = [&read_bytes](absl::Span<uint8_t> buffer) {
    read_bytes += buffer.size();
    return static_cast<int64_t>(buffer.size());
  };
  ASSERT_TRUE(client->LoadWeights(stream).ok());
  EXPECT_EQ(read_bytes, 2 * 8 * sizeof(float));  // for the id, to send
  EXPECT_EQ(rewound, 1);
  second_.FailNext(1, Unavailable());
  ASSERT_TRUE(client->LoadWeights(stream).ok());
  EXPECT_EQ(rewound, 3);
  EXPECT_EQ(first_.calls(), 2);
  EXPECT_EQ(second_.calls(), 3);
}

TEST_F(SeveralServersTest, AStreamsErrorIsTheLoadsAndNoServersWord) {
  const auto client = Connect();
  const std::vector<float> values(8);
  WeightsStream stream;
  stream.spec = SpecOf(Dense(values));
  stream.rewind = [] { return absl::OkStatus(); };
  int reads = 0;
  stream.read = [&reads](absl::Span<uint8_t> buffer) {
    if (++reads > 1) return absl::StatusOr<int64_t>(absl::DataLossError("eof"));
    return absl::StatusOr<int64_t>(buffer.size());  // for the id
  };
  EXPECT_EQ(client->LoadWeights(stream).status(), absl::DataLossError("eof"));
  EXPECT_EQ(first_.chunks().size() + second_.chunks().size(), 0u);
}

TEST_F(SeveralServersTest, ProgressIsOfTheWeightsWhateverTheServers) {
  const auto client = Connect();
  const std::vector<float> values(8);
  LoadOptions options;
  options.chunk_bytes = 16;
  std::vector<int64_t> sent;
  options.progress = [&sent](const LoadProgress& progress) {
    sent.push_back(progress.sent_bytes);
  };
  ASSERT_TRUE(client->LoadWeights(Dense(values), options).ok());
  EXPECT_THAT(sent, ElementsAre(0, 16, 32));
}

TEST_F(SeveralServersTest, UnloadsGoToAllServersAtOnce) {
  const auto client = Connect();
  first_.CloseGate();
  second_.CloseGate();
  auto unload = std::async(std::launch::async,
                           [&] { return client->UnloadWeights("layer"); });
  first_.AwaitAtGate(1);
  second_.AwaitAtGate(1);
  first_.OpenGate();
  second_.OpenGate();
  EXPECT_TRUE(unload.get().ok());
}

TEST_F(SeveralServersTest, AStreamThatIsReadOnceFitsOneServer) {
  const auto client = Connect();
  WeightsStream stream;
  const std::vector<float> values(8);
  stream.spec = SpecOf(Dense(values));
  stream.read = [](absl::Span<uint8_t> buffer) {
    return static_cast<int64_t>(buffer.size());
  };
  const absl::Status status = client->LoadWeights(stream).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("rewind"));
}

TEST_F(SeveralServersTest, ProgramsAreRegisteredAtEveryServer) {
  const auto client = Connect();
  v1::ProgramInfo info;
  info.set_id(std::string(64, 'a'));
  first_.set_program(info);
  second_.set_program(info);
  ProgramText text;
  text.text = "revision: 1";
  RegisterOptions options;
  options.name = "ffn";
  const auto result = client->RegisterProgram(text, options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(first_.load_program_request().name(), "ffn");
  EXPECT_EQ(second_.load_program_request().name(), "ffn");
}

TEST_F(SeveralServersTest, UnloadsReachEveryServerAndMayFindNothingAtSome) {
  const auto client = Connect();
  const grpc::Status unknown(grpc::StatusCode::NOT_FOUND, "no such weights");
  first_.FailNext(1, unknown);
  const auto freed = client->UnloadWeights("layer");
  ASSERT_TRUE(freed.ok()) << freed.status();
  EXPECT_TRUE(*freed);
  EXPECT_THAT(second_.unloaded(), ElementsAre("layer"));
  first_.FailNext(1, unknown);
  second_.FailNext(1, unknown);
  EXPECT_TRUE(absl::IsNotFound(client->UnloadWeights("layer").status()));
  second_.FailNext(1, grpc::Status(grpc::StatusCode::INTERNAL, "broken"));
  EXPECT_EQ(client->UnloadProgram("ffn").status().code(),
            absl::StatusCode::kInternal);
  EXPECT_EQ(first_.unload_program_request().program(), "ffn");
}

TEST_F(SeveralServersTest, PagesOfAListAreOneServers) {
  const auto client = Connect();
  for (int i = 1; i <= 4; ++i) {
    const auto layers = client->ListWeights();
    ASSERT_TRUE(layers.ok()) << layers.status();
    EXPECT_EQ(layers->size(), 2u);
    EXPECT_EQ(first_.calls() % 2, 0);
    EXPECT_EQ(second_.calls() % 2, 0);
  }
}

TEST_F(SeveralServersTest, StreamsOpenWhereTheFewestAre) {
  for (FakeService* service : {&first_, &second_}) {
    service->set_stream([](auto* stream) {
      v1::GemmStreamRequest request;
      while (stream->Read(&request)) {
      }
      return grpc::Status::OK;
    });
  }
  const auto client = Connect();
  std::vector<std::unique_ptr<GemmStream>> streams;
  for (int i = 0; i < 6; ++i) {
    auto stream = client->GemmStream();
    ASSERT_TRUE(stream.ok()) << stream.status();
    streams.push_back(*std::move(stream));
  }
  for (auto& stream : streams) EXPECT_TRUE(stream->Finish().ok());
  // Each made two calls at its server: its limits, and itself.
  EXPECT_EQ(first_.calls(), 6);
  EXPECT_EQ(second_.calls(), 6);
}

TEST_F(SeveralServersTest, AStreamOpensWhereTheServerAnswers) {
  const auto client = Connect();
  first_.FailNext(1 << 20, Unavailable());
  for (int i = 0; i < 4; ++i) {
    const auto stream = client->GemmStream();
    ASSERT_TRUE(stream.ok()) << stream.status();
    EXPECT_TRUE((*stream)->Finish().ok());
  }
}

}  // namespace
}  // namespace qgemm
