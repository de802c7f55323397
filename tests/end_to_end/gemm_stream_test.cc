// SPDX-License-Identifier: Apache-2.0
//
// GemmStream against a real server: what Gemm answers, whatever the order, the
// cuts and the errors in between; its bounds; and its end by either side.

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <grpcpp/create_channel_posix.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "tests/end_to_end/raw_call.h"
#include "tests/end_to_end/stream_client.h"
#include "tests/end_to_end/test_server.h"
#include "tests/support/seeds.h"

namespace qgemm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kGemmStream[] = "/qgemm.v1.Qgemm/GemmStream";
constexpr int64_t kN = 32;
constexpr int64_t kK = 64;

std::vector<size_t> RandomCuts(size_t bytes, std::mt19937_64* random) {
  std::vector<size_t> cuts;
  for (uint64_t i = (*random)() % 6; i > 0; --i) {
    cuts.push_back((*random)() % (bytes + 1));
  }
  std::sort(cuts.begin(), cuts.end());
  // Only the first fragment may be empty.
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  while (!cuts.empty() && cuts.back() == bytes) cuts.pop_back();
  return cuts;
}

// What an answer of the stream ought to be.
struct Expected {
  grpc::StatusCode code = grpc::StatusCode::OK;
  std::string message;
  std::string c;
};

Expected AnswerOfGemm(const Client& client, const v1::GemmRequest& request) {
  const auto answer = client.Gemm(request);
  return {answer.status.error_code(), answer.status.error_message(),
          answer.response.c()};
}

void ExpectAnswer(const StreamedAnswer& answer, const Expected& expected) {
  EXPECT_EQ(answer.code(), expected.code) << answer.error.message();
  EXPECT_EQ(answer.error.message(), expected.message);
  EXPECT_EQ(answer.c, expected.c);
}

// A server with the layer "layer", Q4_0 [kN, kK].
class GemmStreamTest : public ::testing::Test {
 protected:
  GemmStreamTest() : client_(server_.NewClient()) {
    LoadLayer(client_, kN, kK, &random_);
  }

  v1::GemmRequest Request(int64_t m) {
    return MakeGemm("layer", m, kK, &random_);
  }

  RandomGenerator random_;
  TestServer server_;
  const Client client_;
};

TEST_F(GemmStreamTest, AnswersWhatGemmAnswers) {
  const v1::GemmRequest request = Request(3);
  StreamClient stream(client_);
  ASSERT_TRUE(stream.Write(ToMessage(9, request)));
  const StreamedAnswer answer = stream.ReadOne();
  EXPECT_EQ(answer.id, 9u);
  ExpectAnswer(answer, AnswerOfGemm(client_, request));
  EXPECT_GT(answer.timings.total_ns(), 0u);
  EXPECT_EQ(answer.timings.launch_rows(), 3u);
  stream.WritesDone();
  EXPECT_TRUE(stream.Finish().ok());
}

TEST_F(GemmStreamTest, AnEmptyStreamEndsWithOk) {
  StreamClient stream(client_);
  stream.WritesDone();
  EXPECT_TRUE(stream.Finish().ok());
}

// Many requests of several kinds, some of them wrong, fragments of up to three
// in turn, cut at random.
TEST_F(GemmStreamTest, RandomPipelinesAreAnsweredLikeGemm) {
  constexpr int kRequests = 300;
  const uint64_t seed = FreshSeed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  std::vector<v1::GemmRequest> kinds;
  for (const int64_t m : {1, 2, 7, 64}) kinds.push_back(Request(m));
  kinds.push_back(Request(2));
  kinds.back().set_weights("unknown");
  kinds.push_back(Request(2));
  kinds.back().set_m(3);
  kinds.push_back(Request(1));
  kinds.back().set_c_type(v1::FLOAT_TYPE_FP32);
  std::vector<Expected> expected;
  for (const v1::GemmRequest& kind : kinds) {
    expected.push_back(AnswerOfGemm(client_, kind));
  }
  std::vector<size_t> kind_of(kRequests);
  for (size_t& kind : kind_of) kind = random() % kinds.size();

  StreamClient stream(client_);
  std::thread writer([&] {
    // What is left of the requests whose messages alternate.
    std::vector<std::vector<v1::GemmStreamRequest>> open;
    for (int id = 0; id < kRequests || !open.empty();) {
      if (id < kRequests && open.size() < 3) {
        const v1::GemmRequest& request = kinds[kind_of[id]];
        open.push_back(
            ToMessages(id, request, RandomCuts(request.a().size(), &random)));
        std::reverse(open.back().begin(), open.back().end());
        ++id;
      }
      auto chosen = open.begin() + random() % open.size();
      stream.Write(chosen->back());
      chosen->pop_back();
      if (chosen->empty()) open.erase(chosen);
    }
    stream.WritesDone();
  });
  std::map<uint64_t, int> answers;
  while (const auto answer = stream.Read()) {
    SCOPED_TRACE(testing::Message() << "request " << answer->id);
    ++answers[answer->id];
    ExpectAnswer(*answer, expected[kind_of[answer->id]]);
  }
  writer.join();
  EXPECT_TRUE(stream.Finish().ok());
  EXPECT_EQ(answers.size(), static_cast<size_t>(kRequests));
  for (const auto& [id, count] : answers) EXPECT_EQ(count, 1) << id;
}

TEST_F(GemmStreamTest, AnIdThatIsOutstandingIsRefusedToTheSecond) {
  const v1::GemmRequest request = Request(2);
  const std::vector<v1::GemmStreamRequest> fragments =
      ToMessages(5, request, {100});
  StreamClient stream(client_);
  ASSERT_TRUE(stream.Write(fragments[0]));
  ASSERT_TRUE(stream.Write(ToMessage(5, request)));
  const StreamedAnswer refused = stream.ReadOne();
  EXPECT_EQ(refused.code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(refused.error.message(),
              AllOf(HasSubstr("request_id = 5"), HasSubstr("outstanding")));
  ASSERT_TRUE(stream.Write(fragments[1]));
  ExpectAnswer(stream.ReadOne(), AnswerOfGemm(client_, request));
  ASSERT_TRUE(stream.Write(ToMessage(5, request))) << "the id is free again";
  ExpectAnswer(stream.ReadOne(), AnswerOfGemm(client_, request));
}

TEST_F(GemmStreamTest, TheRestOfARefusedOperandIsDropped) {
  v1::GemmRequest unknown = Request(2);
  unknown.set_weights("unknown");
  const std::vector<v1::GemmStreamRequest> fragments =
      ToMessages(5, unknown, {100, 200});
  const v1::GemmRequest request = Request(1);
  StreamClient stream(client_);
  ASSERT_TRUE(stream.Write(fragments[0]));
  EXPECT_EQ(stream.ReadOne().code(), grpc::StatusCode::NOT_FOUND);
  ASSERT_TRUE(stream.Write(fragments[1]));
  ASSERT_TRUE(stream.Write(fragments[2]));
  ASSERT_TRUE(stream.Write(ToMessage(5, request)));
  ExpectAnswer(stream.ReadOne(), AnswerOfGemm(client_, request));
}

TEST_F(GemmStreamTest, AnOperandInPartCanBeCancelled) {
  const std::vector<v1::GemmStreamRequest> fragments =
      ToMessages(5, Request(2), {100});
  StreamClient stream(client_);
  ASSERT_TRUE(stream.Write(fragments[0]));
  v1::GemmStreamRequest cancel;
  cancel.set_request_id(5);
  cancel.set_cancel(true);
  ASSERT_TRUE(stream.Write(cancel));
  EXPECT_EQ(stream.ReadOne().code(), grpc::StatusCode::CANCELLED);
  ASSERT_TRUE(stream.Write(cancel)) << "what is answered is ignored";
  ASSERT_TRUE(stream.Write(ToMessage(5, Request(1))));
  EXPECT_EQ(stream.ReadOne().code(), grpc::StatusCode::OK);
  stream.WritesDone();
  EXPECT_TRUE(stream.Finish().ok());
}

TEST_F(GemmStreamTest, AnOperandInPartAtTheEndIsRefused) {
  StreamClient stream(client_);
  ASSERT_TRUE(stream.Write(ToMessages(5, Request(2), {100}).front()));
  ASSERT_TRUE(stream.Write(ToMessage(6, Request(1))));
  stream.WritesDone();
  std::map<uint64_t, grpc::StatusCode> codes;
  while (const auto answer = stream.Read()) codes[answer->id] = answer->code();
  EXPECT_EQ(codes[5], grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(codes[6], grpc::StatusCode::OK);
  EXPECT_TRUE(stream.Finish().ok());
}

// Changes one message of a request in two fragments of 100 and 156 bytes.
struct Malformed {
  const char* name;
  size_t message;
  std::function<void(v1::GemmStreamRequest*)> change;
};

class MalformedTest : public GemmStreamTest,
                      public ::testing::WithParamInterface<Malformed> {};

TEST_P(MalformedTest, EndsTheStream) {
  std::vector<v1::GemmStreamRequest> messages =
      ToMessages(5, Request(2), {100});
  GetParam().change(&messages[GetParam().message]);
  StreamClient stream(client_);
  stream.Write(messages);
  const grpc::Status status = stream.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("request_id = "));
  EXPECT_TRUE(client_.Gemm(Request(1)).ok());
}

INSTANTIATE_TEST_SUITE_P(
    Messages, MalformedTest,
    ::testing::Values(
        Malformed{"AnotherId", 1, [](auto* m) { m->set_request_id(6); }},
        Malformed{"AGap", 1, [](auto* m) { m->set_offset(101); }},
        Malformed{"AnOverlap", 1, [](auto* m) { m->set_offset(99); }},
        Malformed{"AFarOffset", 1,
                  [](auto* m) { m->set_offset(~uint64_t{0}); }},
        Malformed{"NoBytes", 1, [](auto* m) { m->clear_a(); }},
        Malformed{"TooManyBytes", 1, [](auto* m) { m->set_a(m->a() + "x"); }},
        Malformed{"NoHeader", 0, [](auto* m) { m->clear_gemm(); }},
        Malformed{"ASecondHeader", 1,
                  [](auto* m) {
                    m->mutable_gemm();
                    m->set_a_bytes(1000);
                  }},
        Malformed{"ACancelWithBytes", 1, [](auto* m) { m->set_cancel(true); }}),
    [](const auto& info) { return std::string(info.param.name); });

// Changes the one message of a request of two rows.
struct BadRequest {
  const char* name;
  grpc::StatusCode code;
  const char* words;
  std::function<void(v1::GemmStreamRequest*)> change;
};

class BadRequestTest : public GemmStreamTest,
                       public ::testing::WithParamInterface<BadRequest> {};

TEST_P(BadRequestTest, IsToldByItsAnswerAndTheStreamGoesOn) {
  v1::GemmStreamRequest message = ToMessage(5, Request(2));
  GetParam().change(&message);
  StreamClient stream(client_);
  ASSERT_TRUE(stream.Write(message));
  const StreamedAnswer refused = stream.ReadOne();
  EXPECT_EQ(refused.code(), GetParam().code);
  EXPECT_THAT(refused.error.message(), HasSubstr(GetParam().words));
  EXPECT_EQ(refused.error.retry_delay_ms(), 0u);
  ASSERT_TRUE(stream.Write(ToMessage(6, Request(1))));
  EXPECT_EQ(stream.ReadOne().code(), grpc::StatusCode::OK);
}

INSTANTIATE_TEST_SUITE_P(
    Requests, BadRequestTest,
    ::testing::Values(
        BadRequest{"NoOperand", grpc::StatusCode::INVALID_ARGUMENT,
                   "a has 0 bytes", [](auto* m) { m->clear_a(); }},
        BadRequest{"LessThanItsFragment", grpc::StatusCode::INVALID_ARGUMENT,
                   "a_bytes = 255", [](auto* m) { m->set_a_bytes(255); }},
        BadRequest{"AnOffset", grpc::StatusCode::INVALID_ARGUMENT, "offset = 1",
                   [](auto* m) { m->set_offset(1); }},
        BadRequest{"AnOperandInTheHeader", grpc::StatusCode::INVALID_ARGUMENT,
                   "gemm.a", [](auto* m) { m->mutable_gemm()->set_a("x"); }},
        BadRequest{"TinyFragments", grpc::StatusCode::INVALID_ARGUMENT,
                   "c_fragment_bytes = 4095",
                   [](auto* m) { m->set_c_fragment_bytes(4095); }},
        BadRequest{"UnknownWeights", grpc::StatusCode::NOT_FOUND, "unknown",
                   [](auto* m) { m->mutable_gemm()->set_weights("unknown"); }},
        BadRequest{
            "RowsThatOverflow", grpc::StatusCode::INVALID_ARGUMENT,
            "m = ", [](auto* m) { m->mutable_gemm()->set_m(~uint64_t{0}); }}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_F(GemmStreamTest, AnOperandOfAllBytesThereAreIsRefusedBeforeItComes) {
  v1::GemmStreamRequest message = ToMessage(5, Request(2));
  message.set_a_bytes(~uint64_t{0});
  StreamClient stream(client_);
  ASSERT_TRUE(stream.Write(message));
  const StreamedAnswer refused = stream.ReadOne();
  EXPECT_EQ(refused.code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.error.message(),
              AllOf(HasSubstr("18446744073709551615"),
                    HasSubstr("--max_stream_operand_bytes")));
}

TEST_F(GemmStreamTest, BytesThatAreNoMessageEndTheStream) {
  const RawAnswer answer =
      StreamRaw(client_.channel(), kGemmStream, "\x7a\x05");
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(answer.status.error_message(),
            "the message does not parse as qgemm.v1.GemmStreamRequest");
}

TEST_F(GemmStreamTest, TooManyOperandsInPartEndTheStream) {
  StreamClient stream(client_);
  for (uint64_t id = 0; id < 9; ++id) {
    stream.Write(ToMessages(id, Request(2), {100}).front());
  }
  const grpc::Status status = stream.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("come in part"));
}

// Operands and answers beyond the message limit, and their bits.
TEST(GemmStreamFragments, CarryWhatNoMessageCan) {
  RandomGenerator random(FreshSeed());
  ServerOptions options;
  options.max_message_bytes = 1 << 17;
  TestServer server(options);
  const Client client = server.NewClient();
  LoadLayer(client, /*n=*/1024, /*k=*/1024, &random);
  const v1::GemmRequest request = MakeGemm("layer", 100, 1024, &random);
  std::vector<size_t> cuts;
  for (size_t at = 60000; at < request.a().size(); at += 60000) {
    cuts.push_back(at);
  }
  std::vector<v1::GemmStreamRequest> messages = ToMessages(5, request, cuts);
  messages.front().set_c_fragment_bytes(5000);
  StreamClient stream(client);
  ASSERT_TRUE(stream.Write(messages));
  const StreamedAnswer answer = stream.ReadOne();
  EXPECT_EQ(answer.c.size(), 100u * 1024 * 2);
  EXPECT_EQ(answer.messages, 41);  // of 5000 bytes
  // A request of few rows may have other bits (docs/formats.md).
  constexpr int kRows = 16;
  for (const int row : {0, 57, 84}) {
    v1::GemmRequest part = request;
    part.set_m(kRows);
    part.set_a(request.a().substr(row * 2048, kRows * 2048));
    EXPECT_TRUE(client.Gemm(part).response.c() ==
                answer.c.substr(row * 2048, kRows * 2048))
        << "rows from " << row;
  }
}

TEST(GemmStreamFragments, OfAnAnswerFitAStockClientsReceiveLimit) {
  RandomGenerator random(FreshSeed());
  TestServer server;
  const Client loader = server.NewClient();
  LoadLayer(loader, /*n=*/8192, kK, &random);
  const auto stub = v1::Qgemm::NewStub(grpc::CreateChannel(
      server.address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  const auto stream = stub->GemmStream(&context);
  ASSERT_TRUE(stream->Write(ToMessage(5, MakeGemm("layer", 300, kK, &random))));
  std::string c;
  v1::GemmStreamResponse message;
  while (c.size() < 300u * 8192 * 2 && stream->Read(&message)) c += message.c();
  EXPECT_EQ(c.size(), 300u * 8192 * 2);
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST(GemmStreamLimits, OperandsBeyondTheirLimitAreRefused) {
  RandomGenerator random(FreshSeed());
  ServerOptions options;
  options.stream.max_operand_bytes = 4096;
  TestServer server(options);
  const Client client = server.NewClient();
  LoadLayer(client, /*n=*/1024, kK, &random);
  StreamClient stream(client);
  ASSERT_TRUE(stream.Write(ToMessage(5, MakeGemm("layer", 2, kK, &random))));
  EXPECT_EQ(stream.ReadOne().code(), grpc::StatusCode::OK);
  ASSERT_TRUE(stream.Write(ToMessage(6, MakeGemm("layer", 3, kK, &random))));
  EXPECT_THAT(stream.ReadOne().error.message(),
              AllOf(HasSubstr("6144"), HasSubstr("4096"),
                    HasSubstr("--max_stream_operand_bytes")));
}

TEST(GemmStreamLimits, WhatTheQueueCanNeverTakeIsRefusedBeforeItComes) {
  RandomGenerator random(FreshSeed());
  ServerOptions options;
  options.scheduler.max_queued_bytes = 1000;
  TestServer server(options);
  const Client client = server.NewClient();
  LoadLayer(client, kN, kK, &random);
  StreamClient stream(client);
  ASSERT_TRUE(stream.Write(
      ToMessages(5, MakeGemm("layer", 6, kK, &random), {1}).front()));
  const StreamedAnswer refused = stream.ReadOne();
  EXPECT_EQ(refused.code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.error.message(),
              AllOf(HasSubstr("768"), HasSubstr("384"), HasSubstr("1000"),
                    HasSubstr("--max_queued_bytes")));
  EXPECT_EQ(refused.error.retry_delay_ms(), 0u);
}

TEST(GemmStreamLimits, OperandsInPartOfAllStreamsAreBounded) {
  RandomGenerator random(FreshSeed());
  ServerOptions options;
  options.scheduler.max_queued_bytes = 1000;
  TestServer server(options);
  const Client client = server.NewClient();
  LoadLayer(client, kN, kK, &random);
  const std::vector<v1::GemmStreamRequest> messages =
      ToMessages(5, MakeGemm("layer", 4, kK, &random), {1});
  StreamClient first(client);
  StreamClient second(client);
  ASSERT_TRUE(first.Write(messages.front()));
  // The server has read the first message once it answers a later one.
  ASSERT_TRUE(first.Write(ToMessage(6, MakeGemm("layer", 1, kK, &random))));
  EXPECT_EQ(first.ReadOne().code(), grpc::StatusCode::OK);
  ASSERT_TRUE(second.Write(messages.front()));
  const StreamedAnswer refused = second.ReadOne();
  EXPECT_EQ(refused.code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.error.message(), HasSubstr("come in part"));
  EXPECT_GT(refused.error.retry_delay_ms(), 0u);
  ASSERT_TRUE(first.Write(messages.back()));
  EXPECT_EQ(first.ReadOne().code(), grpc::StatusCode::OK);
}

// A TCP connection that the test may cut.
int Connect(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(
      connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
      0);
  return fd;
}

// A server on a held backend with the layer "layer".
class HeldStreamTest : public ::testing::Test {
 protected:
  explicit HeldStreamTest(const ServerOptions& options = ServerOptions())
      : server_(options), client_(server_.NewClient()) {
    LoadLayer(client_, kN, kK, &random_);
    server_.backend().Hold();
  }

  v1::GemmStreamRequest Message(uint64_t id) {
    return ToMessage(id, MakeGemm("layer", 1, kK, &random_));
  }
  // Requests 1 and 2, each in a launch of its own, which hold all slots.
  void FillLaunches(StreamClient* stream) {
    for (int id = 1; id <= 2; ++id) {
      ASSERT_TRUE(stream->Write(Message(id)));
      server_.backend().WaitForHeld(id);
    }
  }
  void Drain() { server_.test_server().server().Drain(absl::InfiniteFuture()); }

  RandomGenerator random_;
  HeldServer server_;
  const Client client_;
};

TEST_F(HeldStreamTest, AnswersComeInTheOrderOfTheirLaunches) {
  StreamClient stream(client_);
  FillLaunches(&stream);
  server_.backend().Release(1);
  EXPECT_EQ(stream.ReadOne().id, 2u);
  server_.backend().ReleaseAll();
  EXPECT_EQ(stream.ReadOne().id, 1u);
}

TEST_F(HeldStreamTest, ACancelledRequestIsNotComputed) {
  StreamClient stream(client_);
  FillLaunches(&stream);
  v1::GemmStreamRequest cancel;
  cancel.set_request_id(3);
  cancel.set_cancel(true);
  ASSERT_TRUE(stream.Write(Message(3)));
  ASSERT_TRUE(stream.Write(cancel));
  // An answer to a later message: the cancel was read before.
  v1::GemmStreamRequest unknown = Message(4);
  unknown.mutable_gemm()->set_weights("unknown");
  ASSERT_TRUE(stream.Write(unknown));
  EXPECT_EQ(stream.ReadOne().id, 4u);
  server_.backend().ReleaseAll();
  std::map<uint64_t, grpc::StatusCode> codes;
  for (int i = 0; i < 3; ++i) {
    const StreamedAnswer answer = stream.ReadOne();
    codes[answer.id] = answer.code();
  }
  EXPECT_EQ(codes[1], grpc::StatusCode::OK);
  EXPECT_EQ(codes[2], grpc::StatusCode::OK);
  EXPECT_EQ(codes[3], grpc::StatusCode::CANCELLED);
  EXPECT_EQ(server_.backend().enqueued(), 2);
}

TEST_F(HeldStreamTest, ARequestBeyondItsTimeoutIsNotComputed) {
  StreamClient stream(client_);
  FillLaunches(&stream);
  v1::GemmStreamRequest late = Message(3);
  late.set_timeout_ms(1);
  ASSERT_TRUE(stream.Write(late));
  v1::GemmStreamRequest unknown = Message(4);
  unknown.mutable_gemm()->set_weights("unknown");
  ASSERT_TRUE(stream.Write(unknown));
  EXPECT_EQ(stream.ReadOne().id, 4u);
  // The server took it before that answer, by the same clock.
  const absl::Time passed = absl::Now() + absl::Milliseconds(2);
  while (absl::Now() < passed) std::this_thread::yield();
  server_.backend().ReleaseAll();
  for (int i = 0; i < 3; ++i) {
    const StreamedAnswer answer = stream.ReadOne();
    EXPECT_EQ(answer.code(), answer.id == 3
                                 ? grpc::StatusCode::DEADLINE_EXCEEDED
                                 : grpc::StatusCode::OK);
  }
  EXPECT_EQ(server_.backend().enqueued(), 2);
}

TEST_F(HeldStreamTest, ACancelledCallGivesItsMemoryBack) {
  {
    StreamClient stream(client_);
    FillLaunches(&stream);
    ASSERT_TRUE(stream.Write(Message(3)));
    ASSERT_TRUE(stream.Write(
        ToMessages(4, MakeGemm("layer", 2, kK, &random_), {9}).front()));
    while (server_.backend().leases() < 7) std::this_thread::yield();
    stream.Cancel();
    EXPECT_EQ(stream.Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  server_.backend().ReleaseAll();
  Drain();
  EXPECT_EQ(server_.backend().leases(), 0);
}

TEST_F(HeldStreamTest, ADisconnectedClientsMemoryComesBack) {
  const int socket = Connect(server_.test_server().server().ports().front());
  const Client other(grpc::CreateInsecureChannelFromFd("", dup(socket)));
  StreamClient stream(other);
  FillLaunches(&stream);
  ASSERT_TRUE(stream.Write(
      ToMessages(4, MakeGemm("layer", 2, kK, &random_), {9}).front()));
  while (server_.backend().leases() < 5) std::this_thread::yield();
  ASSERT_EQ(shutdown(socket, SHUT_RDWR), 0);
  close(socket);
  EXPECT_EQ(stream.Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  server_.backend().ReleaseAll();
  while (server_.backend().leases() > 0) std::this_thread::yield();
  EXPECT_TRUE(client_.Gemm(MakeGemm("layer", 1, kK, &random_)).ok());
}

TEST_F(HeldStreamTest, AMalformedMessageGivesTheMemoryOfAllBack) {
  {
    StreamClient stream(client_);
    FillLaunches(&stream);
    ASSERT_TRUE(stream.Write(
        ToMessages(4, MakeGemm("layer", 2, kK, &random_), {9}).front()));
    stream.Write(v1::GemmStreamRequest());
    EXPECT_EQ(stream.Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  }
  server_.backend().ReleaseAll();
  Drain();
  EXPECT_EQ(server_.backend().leases(), 0);
}

TEST_F(HeldStreamTest, ADrainAnswersWhatIsAcceptedAndRefusesTheRest) {
  StreamClient idle(client_);
  StreamClient stream(client_);
  FillLaunches(&stream);
  ASSERT_TRUE(stream.Write(
      ToMessages(3, MakeGemm("layer", 2, kK, &random_), {9}).front()));
  ASSERT_TRUE(stream.Write(Message(4)));
  while (server_.backend().leases() < 7) std::this_thread::yield();
  std::thread drain([this] { Drain(); });
  // In part when the drain began.
  const StreamedAnswer partial = stream.ReadOne();
  EXPECT_EQ(partial.id, 3u);
  EXPECT_EQ(partial.code(), grpc::StatusCode::UNAVAILABLE);
  ASSERT_TRUE(stream.Write(Message(5)));
  const StreamedAnswer late = stream.ReadOne();
  EXPECT_EQ(late.id, 5u);
  EXPECT_EQ(late.code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(idle.Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  server_.backend().ReleaseAll();
  for (int i = 0; i < 3; ++i) {
    const StreamedAnswer answer = stream.ReadOne();
    EXPECT_EQ(answer.code(), grpc::StatusCode::OK) << answer.id;
  }
  EXPECT_EQ(stream.Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  drain.join();
  EXPECT_EQ(server_.backend().leases(), 0);
}

ServerOptions WithBounds(int64_t max_requests, int64_t max_bytes) {
  ServerOptions options;
  options.stream.max_requests = max_requests;
  options.stream.max_bytes = max_bytes;
  return options;
}

// Sends many requests to a held server and looks, until some later calls are
// answered, how much of the backend's memory they hold.
class BoundedStreamTest : public HeldStreamTest {
 protected:
  static constexpr int kRequests = 60;
  static constexpr int kLeasesEach = 2;

  using HeldStreamTest::HeldStreamTest;

  void ExpectBounded(int64_t requests) {
    StreamClient stream(client_);
    std::thread writer([&] {
      for (int id = 0; id < kRequests; ++id) stream.Write(Message(id));
      stream.WritesDone();
    });
    while (server_.backend().leases() < requests * kLeasesEach) {
      std::this_thread::yield();
    }
    for (int i = 0; i < 20; ++i) {
      client_.Info();
      EXPECT_LE(server_.backend().leases(), requests * kLeasesEach);
    }
    server_.backend().ReleaseAll();
    int answers = 0;
    while (const auto answer = stream.Read()) {
      EXPECT_EQ(answer->code(), grpc::StatusCode::OK);
      ++answers;
    }
    writer.join();
    EXPECT_EQ(answers, kRequests);
    EXPECT_TRUE(stream.Finish().ok());
  }
};

class RequestBoundTest : public BoundedStreamTest {
 protected:
  RequestBoundTest() : BoundedStreamTest(WithBounds(4, 1 << 30)) {}
};

TEST_F(RequestBoundTest, BeyondItTheStreamIsNotRead) { ExpectBounded(4); }

class ByteBoundTest : public BoundedStreamTest {
 protected:
  // A request has 128 bytes of A and 64 of C; the one that reaches the bound
  // is the last one read.
  ByteBoundTest() : BoundedStreamTest(WithBounds(1000, 3 * 192 - 1)) {}
};

TEST_F(ByteBoundTest, BeyondItTheStreamIsNotRead) { ExpectBounded(3); }

// Answers of 1 MiB that nobody reads.
TEST(SlowReaderTest, HoldsNoMoreAnswersThanTheBound) {
  constexpr int kRequests = 40;
  constexpr int kBound = 6;
  RandomGenerator random(FreshSeed());
  HeldServer server(WithBounds(kBound, int64_t{1} << 40));
  const Client client = server.NewClient();
  LoadLayer(client, /*n=*/1 << 13, kK, &random);
  const v1::GemmRequest request = MakeGemm("layer", 64, kK, &random);
  StreamClient stream(client);
  std::thread writer([&] {
    for (int id = 0; id < kRequests; ++id) stream.Write(ToMessage(id, request));
    stream.WritesDone();
  });
  server.backend().WaitForCompleted(kBound);
  for (int i = 0; i < 20; ++i) {
    client.Info();
    // An answer that gRPC has taken and not sent is held too.
    EXPECT_LE(server.backend().leases(), 2 * kBound + kBound);
  }
  int answers = 0;
  while (const auto answer = stream.Read()) {
    EXPECT_EQ(answer->c.size(), size_t{1} << 20);
    ++answers;
  }
  writer.join();
  EXPECT_EQ(answers, kRequests);
  server.test_server().server().Drain(absl::InfiniteFuture());
  EXPECT_EQ(server.backend().leases(), 0);
}

// Streams that come and go by every end there is, on one server.
TEST(GemmStreamSoak, LeavesNothingBehind) {
  constexpr int kThreads = 4;
  constexpr int kStreams = 25;
  const uint64_t seed = FreshSeed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  RandomGenerator matrices(seed);
  HeldServer server(WithBounds(8, 1 << 20));
  const Client client = server.NewClient();
  LoadLayer(client, kN, kK, &matrices);
  const v1::GemmRequest request = MakeGemm("layer", 3, kK, &matrices);
  const std::string expected = client.Gemm(request).response.c();
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(seed + t);
      for (int i = 0; i < kStreams; ++i) {
        const Client own = server.NewClient();
        StreamClient stream(own);
        const int requests = static_cast<int>(random() % 20);
        const uint64_t end = random() % 4;
        std::thread writer([&, cut_seed = random()] {
          std::mt19937_64 cuts(cut_seed);
          for (int id = 0; id < requests; ++id) {
            stream.Write(
                ToMessages(id, request, RandomCuts(request.a().size(), &cuts)));
          }
          if (end == 0) stream.WritesDone();
          if (end == 1) stream.Write(v1::GemmStreamRequest());
          if (end == 2) stream.Cancel();
        });
        if (end == 3) writer.join();  // and goes without having read all
        const int read = end == 3 ? requests / 2 : requests;
        for (int id = 0; id < read; ++id) {
          const auto answer = stream.Read();
          if (!answer.has_value()) break;
          EXPECT_EQ(answer->c, expected);
        }
        if (writer.joinable()) writer.join();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  server.test_server().server().Drain(absl::InfiniteFuture());
  EXPECT_EQ(server.backend().leases(), 0);
}

}  // namespace
}  // namespace qgemm
