// SPDX-License-Identifier: Apache-2.0
//
// GemmStream against a real server: its answers equal Gemm's, whatever the
// order, the cuts and the errors in between.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/end_to_end/gemm_stream_fixture.h"
#include "tests/end_to_end/stream_client.h"
#include "tests/end_to_end/test_server.h"
#include "tests/support/seeds.h"

namespace qgemm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

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

// The answer that a request of the stream should have.
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
    // Messages left of the requests whose messages alternate.
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
  const v1::GemmStreamRequest cancel = CancelMessage(5);
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
  messages.front().mutable_open()->set_c_fragment_bytes(5000);
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
