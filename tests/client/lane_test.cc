// SPDX-License-Identifier: Apache-2.0
//
// Calls by a lane: what the server is sent, where operands are, and which calls
// go by gRPC.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "tests/client/lane_fixture.h"

namespace qgemm {
namespace {

using ::testing::ElementsAre;

class LaneTest : public LaneFixture {};

TEST_F(LaneTest, GemmIsSentAsAsked) {
  lane_.set_handler([](const FakeLane::Request& request) {
    std::fill(request.c.begin(), request.c.end(), 'c');
    FakeLane::Answer answer;
    answer.kernel_ns = 1234;
    return answer;
  });
  const auto client = Connect();
  const int calls = service_.calls();
  GemmRequest request = Request();
  request.a_type = FloatType::kFloat32;
  request.m = 1;
  request.a = absl::MakeConstSpan(a_).first(kK * 4);
  request.c_type = FloatType::kBFloat16;
  request.rounding = FloatType::kFloat16;
  request.priority = RequestPriority::kHigh;
  request.client_id = "frontend/1";
  request.deadline = absl::Now() + absl::Hours(1);
  const auto result = client->Gemm(request);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->c, std::string(kN * 2, 'c'));
  EXPECT_EQ(result->n, kN);
  EXPECT_EQ(result->timings.kernel, absl::Nanoseconds(1234));
  EXPECT_EQ(result->attempts, 1);
  EXPECT_EQ(service_.calls(), calls);  // nothing by gRPC

  const FakeLane::Request sent = lane_.last_request();
  EXPECT_EQ(sent.kind, lane::HandleKind::kWeights);
  EXPECT_EQ(sent.name, "layer");
  EXPECT_EQ(sent.client_id, "frontend/1");
  EXPECT_EQ(sent.entry.m, 1u);
  EXPECT_EQ(sent.entry.a_bytes, kK * 4u);
  EXPECT_EQ(sent.entry.c_bytes, kN * 2u);
  EXPECT_EQ(sent.entry.a_type, v1::FLOAT_TYPE_FP32);
  EXPECT_EQ(sent.entry.c_type, v1::FLOAT_TYPE_BF16);
  EXPECT_EQ(sent.entry.mode, v1::COMPUTE_MODE_A16);
  EXPECT_EQ(sent.entry.rounding, v1::FLOAT_TYPE_FP16);
  EXPECT_EQ(sent.entry.priority, v1::PRIORITY_HIGH);
  EXPECT_GT(sent.entry.timeout_ns, 0u);
  EXPECT_LE(sent.entry.timeout_ns, 3600'000'000'000u);
}

TEST_F(LaneTest, CallWithoutADeadlineHasNoTimeout) {
  const auto client = Connect();
  ASSERT_TRUE(client->Gemm(Request()).ok());
  EXPECT_EQ(lane_.last_request().entry.timeout_ns, 0u);
  EXPECT_EQ(lane_.last_request().entry.rounding, 0);
}

TEST_F(LaneTest, RunJoinsItsInputsAndDividesItsOutputs) {
  const auto client = Connect();
  RunRequest request;
  request.program = "program";
  request.m = 2;
  const std::string x(2 * 16, 'x');
  const std::string y(2 * 48, 'y');
  const auto bytes_of = [](const std::string& text) {
    return absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(text.data()),
                               text.size());
  };
  request.inputs = {bytes_of(x), bytes_of(y)};
  const auto whole = client->Run(request);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->outputs, x + y);
  EXPECT_EQ(whole->row_bytes, kRowBytes);
  EXPECT_EQ(lane_.last_request().kind, lane::HandleKind::kProgram);

  std::vector<uint8_t> first(40);
  std::vector<uint8_t> second(88);
  request.outputs = {absl::MakeSpan(first), absl::MakeSpan(second)};
  ASSERT_TRUE(client->Run(request).ok());
  EXPECT_EQ(TextOf(first) + TextOf(second), x + y);
}

TEST_F(LaneTest, TargetsAreOpenedOnceForEachClientId) {
  const auto client = Connect();
  GemmRequest request = Request();
  for (const char* id : {"", "one", "", "one"}) {
    request.client_id = id;
    ASSERT_TRUE(client->Gemm(request).ok());
    EXPECT_EQ(lane_.last_request().client_id, id);
  }
  EXPECT_THAT(lane_.handle_log(), ElementsAre("+layer", "+layer"));
}

TEST_F(LaneTest, FullTableOfHandlesIsEmptiedForTheNext) {
  lane_.set_max_handles(2);
  const auto client = Connect();
  GemmRequest request = Request();
  for (const char* id : {"a", "b", "c", "a"}) {
    request.client_id = id;
    const auto result = client->Gemm(request);
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(result->c, LaneAnswer()) << id;
  }
}

TEST_F(LaneTest, OperandsInLaneMemoryAreUsedWhereTheyAre) {
  const auto client = Connect();
  auto a = client->AllocateOperands(a_.size());
  auto c = client->AllocateOperands(kCBytes);
  ASSERT_TRUE(a.ok() && c.ok());
  EXPECT_TRUE(a->is_in_lane());
  std::copy(a_.begin(), a_.end(), a->bytes().begin());
  GemmRequest request = Request();
  request.a = a->bytes();
  request.c = c->bytes();
  const auto result = client->Gemm(request);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(TextOf(c->bytes()), LaneAnswer());
  EXPECT_EQ(result->placed_c.data(), c->bytes().data());
  const FakeLane::Request sent = lane_.last_request();
  // The server has the same memory at another address.
  EXPECT_EQ(static_cast<int64_t>(sent.entry.c_offset - sent.entry.a_offset),
            c->bytes().data() - a->bytes().data());
  sent.c[0] = 99;
  EXPECT_EQ(c->bytes()[0], 99);
}

TEST_F(LaneTest, OperandsOffTheAlignmentAreCopied) {
  const auto client = Connect();
  auto buffer = client->AllocateOperands(1024);
  ASSERT_TRUE(buffer.ok());
  const auto a = buffer->bytes().subspan(2, a_.size());
  const auto c = buffer->bytes().subspan(514, kCBytes);
  std::copy(a_.begin(), a_.end(), a.begin());
  GemmRequest request = Request();
  request.a = a;
  request.c = c;
  ASSERT_TRUE(client->Gemm(request).ok());
  EXPECT_EQ(TextOf(c), LaneAnswer());
}

TEST_F(LaneTest, InputsSideBySideInLaneMemoryAreUsedWhereTheyAre) {
  const auto client = Connect();
  auto buffer = client->AllocateOperands(2 * kRowBytes);
  ASSERT_TRUE(buffer.ok());
  RunRequest request;
  request.program = "program";
  request.m = 1;
  request.inputs = {buffer->bytes().first(16),
                    buffer->bytes().subspan(16, kRowBytes - 16)};
  request.outputs = {buffer->bytes().subspan(kRowBytes, kRowBytes)};
  std::fill_n(buffer->bytes().begin(), kRowBytes, 'p');
  ASSERT_TRUE(client->Run(request).ok());
  EXPECT_EQ(TextOf(request.outputs[0]), std::string(kRowBytes, 'p'));
  const lane::RequestEntry entry = lane_.last_request().entry;
  EXPECT_EQ(entry.c_offset - entry.a_offset, uint64_t{kRowBytes});
}

TEST_F(LaneTest, ReleasesWhatACallLendsOnce) {
  const auto client = Connect();
  int released = 0;
  GemmRequest request = Request();
  request.a_released = [&] { ++released; };
  ASSERT_TRUE(client->Gemm(request).ok());
  EXPECT_EQ(released, 1);
  lane_.set_handler([](const FakeLane::Request&) {
    return FakeLane::Answer{absl::UnimplementedError("no kernel")};
  });
  EXPECT_FALSE(client->Gemm(request).ok());
  EXPECT_EQ(released, 2);
}

TEST_F(LaneTest, CallsThatFindNoRoomGoByGrpc) {
  const auto client = Connect();
  auto most = client->AllocateOperands((1 << 16) - 256);
  ASSERT_TRUE(most.ok() && most->is_in_lane());
  EXPECT_EQ(client->Gemm(Request())->c, GrpcAnswer());
  *most = OperandBuffer();
  EXPECT_EQ(client->Gemm(Request())->c, LaneAnswer());
}

TEST_F(LaneTest, CallsBeyondTheSlotsGoByGrpc) {
  const auto client = Connect();
  lane_.CloseGate();
  std::vector<std::future<std::string>> held;
  for (int i = 0; i < 8; ++i) {
    held.push_back(std::async(std::launch::async,
                              [&] { return client->Gemm(Request())->c; }));
  }
  lane_.AwaitAtGate(8);
  EXPECT_EQ(client->Gemm(Request())->c, GrpcAnswer());
  lane_.OpenGate();
  for (auto& each : held) EXPECT_EQ(each.get(), LaneAnswer());
  EXPECT_EQ(client->Gemm(Request())->c, LaneAnswer());
}

TEST_F(LaneTest, RequestsOfAnotherShapeGoByGrpcAndTheShapeIsAskedAnew) {
  const auto client = Connect();
  ASSERT_EQ(client->Gemm(Request())->c, LaneAnswer());
  lane_.set_shape("layer", {kK / 2, kN});
  GemmRequest narrower = Request();
  narrower.a = absl::MakeConstSpan(a_).first(a_.size() / 2);
  EXPECT_EQ(client->Gemm(narrower)->c, GrpcAnswer());
  EXPECT_EQ(client->Gemm(narrower)->c.size(), size_t{kCBytes});
  EXPECT_THAT(lane_.handle_log(), ElementsAre("+layer", "-layer", "+layer"));
}

TEST_F(LaneTest, RequestsThatTheServerFindsWrongAreRepeatedByGrpc) {
  const auto client = Connect();
  lane_.set_handler([](const FakeLane::Request&) {
    return FakeLane::Answer{absl::InvalidArgumentError("c_bytes = 96")};
  });
  EXPECT_EQ(client->Gemm(Request())->c, GrpcAnswer());
  EXPECT_EQ(lane_.requests(), 1);
}

TEST_F(LaneTest, UnknownNamesAreToldByGrpc) {
  service_.set_gemm([](const v1::GemmRequest&, v1::GemmResponse*) {
    return grpc::Status(grpc::StatusCode::NOT_FOUND, "the server's words");
  });
  const auto client = Connect();
  GemmRequest request = Request();
  request.weights = "nobody";
  EXPECT_EQ(client->Gemm(request).status(),
            absl::NotFoundError("the server's words"));
}

TEST_F(LaneTest, StreamsAndTimedRunsGoByGrpc) {
  const auto client = Connect();
  RunRequest run;
  run.program = "program";
  run.m = 1;
  const std::vector<uint8_t> row(kRowBytes, 'r');
  run.inputs = {row};
  run.time_ops = true;
  ASSERT_TRUE(client->Run(run).ok());
  EXPECT_EQ(lane_.requests(), 0);
}

TEST_F(LaneTest, ErrorsAreTheServersWithItsDelay) {
  options_.retry.max_attempts = 1;
  const auto client = Connect();
  lane_.set_handler([](const FakeLane::Request&) {
    return FakeLane::Answer{absl::ResourceExhaustedError("queue is full"),
                            absl::Milliseconds(7)};
  });
  const absl::Status status = client->Gemm(Request()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "queue is full");
  EXPECT_EQ(RetryDelay(status), absl::Milliseconds(7));
}

TEST_F(LaneTest, FullQueuesAreTriedAgainAfterTheServersDelay) {
  const auto client = Connect();
  auto tries = std::make_shared<int>(0);
  lane_.set_handler([tries](const FakeLane::Request& request) {
    if (++*tries < 3) {
      return FakeLane::Answer{absl::ResourceExhaustedError("queue is full"),
                              absl::Milliseconds(1)};
    }
    std::fill(request.c.begin(), request.c.end(), 't');
    return FakeLane::Answer();
  });
  const auto result = client->Gemm(Request());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->attempts, 3);
  EXPECT_EQ(result->c, std::string(kCBytes, 't'));
}

TEST_F(LaneTest, CallsWithoutSpinningSleepAndAreWoken) {
  options_.lane_options.spin = absl::ZeroDuration();
  const auto client = Connect();
  for (int i = 0; i < 200; ++i) {
    const auto result = client->Gemm(Request());
    ASSERT_TRUE(result.ok());
    ASSERT_EQ(result->c, LaneAnswer());
  }
}

// Each thread has an A of its own, and must get that back.
TEST_F(LaneTest, ManyThreadsGetTheirOwnAnswers) {
  options_.lane_options.calls = 64;
  const auto client = Connect();
  std::vector<std::thread> threads;
  for (int number = 0; number < 8; ++number) {
    threads.emplace_back([&, number] {
      for (int i = 0; i < 300; ++i) {
        const std::vector<uint8_t> a = OperandOf(number, i);
        GemmRequest request = Request();
        request.a = a;
        std::vector<uint8_t> c(kCBytes);
        request.c = absl::MakeSpan(c);
        ASSERT_TRUE(client->Gemm(request).ok());
        ASSERT_EQ(std::memcmp(c.data(), a.data(), c.size()), 0);
      }
    });
  }
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(lane_.requests(), 8 * 300);
}

}  // namespace
}  // namespace qgemm
