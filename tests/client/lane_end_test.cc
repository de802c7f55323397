// SPDX-License-Identifier: Apache-2.0
//
// Lanes that are not there, end, or are slow: deadlines, calls in flight, and
// memory that outlives what it came from.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <future>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "tests/client/lane_fixture.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;

class LaneEndTest : public LaneFixture {
 protected:
  std::future<absl::StatusOr<GemmResult>> GemmAtGate(Client* client) {
    lane_.CloseGate();
    auto call = std::async(std::launch::async,
                           [this, client] { return client->Gemm(Request()); });
    lane_.AwaitAtGate(1);
    return call;
  }

  // Returns once the client has a lane, and `count` were asked for.
  void AwaitLane(const Client& client, int count = 1) {
    while (lane_.lanes() < count || !client.Connections()[0].has_lane) {
      absl::SleepFor(absl::Milliseconds(2));
    }
  }
};

TEST_F(LaneEndTest, ClientWithoutALaneGoesByGrpc) {
  service_.set_lane_path("");
  const auto client = Connect();
  EXPECT_FALSE(client->Connections()[0].has_lane);
  EXPECT_EQ(client->Gemm(Request())->c, GrpcAnswer());
}

TEST_F(LaneEndTest, LaneThatIsTurnedOffIsNotOpened) {
  options_.lane = LaneUse::kOff;
  const auto client = Connect();
  EXPECT_EQ(client->Gemm(Request())->c, GrpcAnswer());
  EXPECT_EQ(lane_.lanes(), 0);
}

TEST_F(LaneEndTest, ClientOverTcpHasNoLane) {
  const auto client = Client::Connect(service_.address(), options_);
  ASSERT_TRUE(client.ok());
  EXPECT_FALSE((*client)->Connections()[0].has_lane);
  options_.lane = LaneUse::kRequired;
  EXPECT_EQ(Client::Connect(service_.address(), options_).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(LaneEndTest, RequiredLaneThatIsNotThereFailsConnect) {
  options_.lane = LaneUse::kRequired;
  service_.set_lane_path("");
  EXPECT_EQ(Client::Connect(service_.unix_address(), options_).status().code(),
            absl::StatusCode::kUnavailable);
  service_.set_lane_path("/nonexistent/lane.sock");
  EXPECT_THAT(std::string(Client::Connect(service_.unix_address(), options_)
                              .status()
                              .message()),
              HasSubstr("/nonexistent/lane.sock: No such file"));
}

TEST_F(LaneEndTest, RefusalOfARequiredLaneIsToldAndElseGoneRound) {
  lane_.set_refusal(absl::ResourceExhaustedError("uid 0 has its 4 lanes"));
  EXPECT_EQ(Connect()->Gemm(Request())->c, GrpcAnswer());
  options_.lane = LaneUse::kRequired;
  const absl::Status status =
      Client::Connect(service_.unix_address(), options_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("uid 0 has its 4 lanes"));
}

TEST_F(LaneEndTest, GrantsThatLeadOutOfTheSegmentAreRefused) {
  options_.lane = LaneUse::kRequired;
  const std::vector<std::function<void(lane::Accept*)>> edits = {
      [](lane::Accept* accept) { accept->segment_bytes += 4096; },
      [](lane::Accept* accept) { accept->segment_bytes = UINT64_MAX; },
      [](lane::Accept* accept) { accept->slots = 9; },
      [](lane::Accept* accept) { accept->slots = 0; },
      [](lane::Accept* accept) { accept->slots = 8192; },
      [](lane::Accept* accept) { accept->requests_offset += 8; },
      [](lane::Accept* accept) {
        accept->completions_offset = accept->segment_bytes - 64;
      },
      [](lane::Accept* accept) { accept->operands_bytes += 64; },
      [](lane::Accept* accept) { accept->operands_offset = -64; },
  };
  for (size_t i = 0; i < edits.size(); ++i) {
    lane_.set_grant_edit(edits[i]);
    EXPECT_EQ(
        Client::Connect(service_.unix_address(), options_).status().code(),
        absl::StatusCode::kInternal)
        << i;
  }
}

TEST_F(LaneEndTest, TokenGoesToTheLane) {
  options_.token = "secret";
  const auto client = Connect();
  EXPECT_EQ(lane_.token(), "secret");
}

TEST_F(LaneEndTest, CallsGoByGrpcWhileThereIsNoLane) {
  const auto client = Connect();
  ASSERT_EQ(client->Gemm(Request())->c, LaneAnswer());
  lane_.set_refusal(absl::UnavailableError("not yet"));
  lane_.EndLanes("the server drains");
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(client->Gemm(Request()).ok());
  while (client->Connections()[0].has_lane) std::this_thread::yield();
  EXPECT_EQ(client->Gemm(Request())->c, GrpcAnswer());
  lane_.set_refusal(absl::OkStatus());
  AwaitLane(*client);
  EXPECT_EQ(client->Gemm(Request())->c, LaneAnswer());
}

TEST_F(LaneEndTest, CallInFlightOnALaneThatVanishesGoesByGrpc) {
  const auto client = Connect();
  auto call = GemmAtGate(client.get());
  lane_.DropLanes();
  EXPECT_EQ(call.get()->c, GrpcAnswer());
}

TEST_F(LaneEndTest, CallsOnARequiredLaneThatEndedAreUnavailable) {
  options_.lane = LaneUse::kRequired;
  options_.retry.max_attempts = 1;
  const auto client = Connect();
  auto call = GemmAtGate(client.get());
  lane_.set_refusal(absl::UnavailableError("gone"));
  lane_.EndLanes("the server drains");
  const absl::Status status = call.get().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the server drains"));
  EXPECT_EQ(client->Gemm(Request()).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(client->AllocateOperands(1).status().code(),
            absl::StatusCode::kUnavailable);
  lane_.OpenGate();
  lane_.set_refusal(absl::OkStatus());
  AwaitLane(*client);
  EXPECT_EQ(client->Gemm(Request())->c, LaneAnswer());
}

TEST_F(LaneEndTest, DestroyingTheClientCancelsItsCalls) {
  auto client = Connect();
  auto call = GemmAtGate(client.get());
  client.reset();
  EXPECT_EQ(call.get().status().code(), absl::StatusCode::kCancelled);
}

TEST_F(LaneEndTest, DeadlineEndsACallAndItsMemoryComesBackWithTheAnswer) {
  const auto client = Connect();
  lane_.CloseGate();
  // With it no second call of 300 rows has room.
  std::vector<uint8_t> a(300 * kK * 2, 'a');
  GemmRequest request = Request();
  request.m = 300;
  request.a = a;
  request.deadline = absl::Now() + absl::Milliseconds(200);
  auto rest = client->AllocateOperands((1 << 16) - 40000);
  ASSERT_TRUE(rest.ok() && rest->is_in_lane());
  EXPECT_EQ(client->Gemm(request).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_GE(absl::Now(), request.deadline);
  request.deadline = absl::InfiniteFuture();
  service_.set_gemm([](const v1::GemmRequest&, v1::GemmResponse* response) {
    response->set_c(std::string(300 * kN * 2, 'g'));
    return grpc::Status::OK;
  });
  EXPECT_EQ(client->Gemm(request)->c[0], 'g');
  lane_.OpenGate();
  while (client->Gemm(request)->c[0] != 'a') {
    absl::SleepFor(absl::Milliseconds(1));
  }
}

TEST_F(LaneEndTest, DeadlineThatHasPassedSendsNothing) {
  const auto client = Connect();
  GemmRequest request = Request();
  request.deadline = absl::Now() - absl::Seconds(1);
  EXPECT_EQ(client->Gemm(request).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(lane_.requests(), 0);
}

TEST_F(LaneEndTest, CallThatTheServerWritesInPlaceWaitsForItPastTheDeadline) {
  const auto client = Connect();
  auto c = client->AllocateOperands(kCBytes);
  ASSERT_TRUE(c.ok());
  lane_.CloseGate();
  auto call = std::async(std::launch::async, [&] {
    GemmRequest request = Request();
    request.c = c->bytes();
    request.deadline = absl::Now() + absl::Milliseconds(200);
    return client->Gemm(request);
  });
  lane_.AwaitAtGate(1);
  EXPECT_EQ(call.wait_for(std::chrono::milliseconds(300)),
            std::future_status::timeout);
  lane_.OpenGate();
  EXPECT_TRUE(call.get().ok());
  EXPECT_EQ(TextOf(c->bytes()), LaneAnswer());
}

TEST_F(LaneEndTest, OperandsAreCheckedAndOutliveTheirClient) {
  auto client = Connect();
  for (const int64_t bytes : {int64_t{0}, int64_t{-1}, INT64_MAX}) {
    EXPECT_EQ(client->AllocateOperands(bytes).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  auto large = client->AllocateOperands(1 << 20);
  ASSERT_TRUE(large.ok());
  EXPECT_FALSE(large->is_in_lane());
  auto buffer = client->AllocateOperands(1000);
  ASSERT_TRUE(buffer.ok() && buffer->is_in_lane());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->bytes().data()) % 64, 0u);
  EXPECT_EQ(buffer->As<float>().size(), 250u);
  client.reset();
  std::fill(buffer->bytes().begin(), buffer->bytes().end(), 1);
  std::fill(large->bytes().begin(), large->bytes().end(), 1);
}

TEST_F(LaneEndTest, RequiredLaneWithoutRoomRefusesOperands) {
  options_.lane = LaneUse::kRequired;
  EXPECT_EQ(Connect()->AllocateOperands(1 << 20).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST_F(LaneEndTest, MemoryOfAnAnsweredCallIsThereForOperands) {
  options_.lane = LaneUse::kRequired;
  const auto client = Connect();
  lane_.CloseGate();
  GemmRequest request = Request();
  request.deadline = absl::Now() + absl::Milliseconds(50);
  EXPECT_EQ(client->Gemm(request).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(client->AllocateOperands(1 << 16).status().code(),
            absl::StatusCode::kResourceExhausted);
  lane_.OpenGate();
  const absl::Time limit = absl::Now() + absl::Seconds(10);
  bool has_room = false;
  while (!has_room && absl::Now() < limit) {
    has_room = client->AllocateOperands(1 << 16).ok();
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_TRUE(has_room);
}

TEST_F(LaneEndTest, MemoryOfALaneThatEndedIsMemoryLikeAnyOther) {
  const auto client = Connect();
  auto a = client->AllocateOperands(a_.size());
  auto c = client->AllocateOperands(kCBytes);
  ASSERT_TRUE(a.ok() && c.ok());
  std::copy(a_.begin(), a_.end(), a->bytes().begin());
  lane_.DropLanes();
  AwaitLane(*client, 2);
  GemmRequest request = Request();
  request.a = a->bytes();
  request.c = c->bytes();
  ASSERT_TRUE(client->Gemm(request).ok());
  EXPECT_EQ(TextOf(c->bytes()), LaneAnswer());
}

// The fake lane's own mapping has no such mark.
TEST_F(LaneEndTest, ChildOfAForkDoesNotHaveTheLanesMemory) {
  const auto mappings = [] {
    std::ifstream maps("/proc/self/maps");
    int count = 0;
    for (std::string line; std::getline(maps, line);) {
      count += absl::StrContains(line, "/memfd:lane") ? 1 : 0;
    }
    return count;
  };
  const auto client = Connect();
  ASSERT_EQ(mappings(), 2);
  const pid_t child = fork();
  if (child == 0) _exit(mappings());
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 1);
}

TEST_F(LaneEndTest, OptionsOutOfRangeAreRefused) {
  const std::vector<std::function<void(ClientLaneOptions*)>> edits = {
      [](ClientLaneOptions* lane) { lane->operand_bytes = 0; },
      [](ClientLaneOptions* lane) { lane->calls = 0; },
      [](ClientLaneOptions* lane) { lane->calls = 4097; },
      [](ClientLaneOptions* lane) { lane->spin = -absl::Microseconds(1); },
  };
  for (const auto& edit : edits) {
    ClientOptions options = options_;
    edit(&options.lane_options);
    const absl::Status status =
        Client::Connect(service_.unix_address(), options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("lane_options"));
  }
}

}  // namespace
}  // namespace qgemm
