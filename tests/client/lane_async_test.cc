// SPDX-License-Identifier: Apache-2.0
//
// Asynchronous calls by a lane: where they run, how they end, and what becomes
// of them when the lane does not end them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
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

using Result = absl::StatusOr<GemmResult>;

class LaneAsyncTest : public LaneFixture {
 protected:
  std::future<Result> GemmAtGate(Client* client, const GemmRequest& request) {
    lane_.CloseGate();
    auto call = client->GemmFuture(request);
    lane_.AwaitAtGate(1);
    return call;
  }
};

TEST_F(LaneAsyncTest, AnswersComeByTheLaneOnAnotherThread) {
  const auto client = Connect();
  const int calls = service_.calls();
  for (int i = 0; i < 20; ++i) {
    std::promise<std::thread::id> thread;
    client->GemmAsync(Request(), [&](Result result) {
      EXPECT_EQ(result->c, LaneAnswer());
      EXPECT_EQ(result->attempts, 1);
      thread.set_value(std::this_thread::get_id());
    });
    EXPECT_NE(thread.get_future().get(), std::this_thread::get_id());
  }
  EXPECT_EQ(lane_.requests(), 20);
  EXPECT_EQ(service_.calls(), calls);
  EXPECT_EQ(lane_.handle_log(), std::vector<std::string>{"+layer"});
}

TEST_F(LaneAsyncTest, RunsJoinTheirInputs) {
  const auto client = Connect();
  RunRequest request;
  request.program = "program";
  request.m = 1;
  const std::vector<uint8_t> first(kRowBytes / 2, 'x');
  const std::vector<uint8_t> second(kRowBytes / 2, 'y');
  request.inputs = {first, second};
  const auto result = client->RunFuture(request).get();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->outputs,
            std::string(kRowBytes / 2, 'x') + std::string(kRowBytes / 2, 'y'));
}

TEST_F(LaneAsyncTest, OperandsThatAreNotLentAreCopiedBeforeTheCallReturns) {
  const auto client = Connect();
  auto a = client->AllocateOperands(a_.size());
  ASSERT_TRUE(a.ok() && a->is_in_lane());
  for (int i = 0; i < 2; ++i) {  // the target is open the second time
    lane_.CloseGate();
    std::copy(a_.begin(), a_.end(), a->bytes().begin());
    GemmRequest request = Request();
    request.a = a->bytes();
    auto call = client->GemmFuture(request);
    std::fill(a->bytes().begin(), a->bytes().end(), 0);
    lane_.OpenGate();
    EXPECT_EQ(call.get()->c, LaneAnswer());
  }
}

TEST_F(LaneAsyncTest, LentOperandsInLaneMemoryAreUsedWhereTheyAre) {
  const auto client = Connect();
  auto a = client->AllocateOperands(a_.size());
  auto c = client->AllocateOperands(kCBytes);
  ASSERT_TRUE(a.ok() && c.ok());
  std::copy(a_.begin(), a_.end(), a->bytes().begin());
  std::atomic<int> released = 0;
  GemmRequest request = Request();
  request.a = a->bytes();
  request.a_released = [&] { ++released; };
  request.c = c->bytes();
  const Result result = client->GemmFuture(request).get();
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->placed_c.data(), c->bytes().data());
  EXPECT_EQ(TextOf(c->bytes()), LaneAnswer());
  EXPECT_EQ(released, 1);
  const lane::RequestEntry entry = lane_.last_request().entry;
  EXPECT_EQ(static_cast<ptrdiff_t>(entry.c_offset - entry.a_offset),
            c->bytes().data() - a->bytes().data());
}

TEST_F(LaneAsyncTest, CallOnALaneThatVanishesGoesOnByGrpc) {
  const auto client = Connect();
  std::string sent;
  service_.set_gemm(
      [&](const v1::GemmRequest& request, v1::GemmResponse* response) {
        sent = request.a();
        response->set_c(GrpcAnswer());
        return grpc::Status::OK;
      });
  std::vector<uint8_t> a = a_;
  GemmRequest request = Request();
  request.a = a;
  auto call = GemmAtGate(client.get(), request);
  std::fill(a.begin(), a.end(), 0);
  lane_.DropLanes();
  EXPECT_EQ(call.get()->c, GrpcAnswer());
  EXPECT_EQ(sent, std::string(a_.begin(), a_.end()));
}

TEST_F(LaneAsyncTest, CallsOnARequiredLaneThatEndedAreUnavailable) {
  options_.lane = LaneUse::kRequired;
  options_.retry.max_attempts = 1;
  const auto client = Connect();
  auto call = GemmAtGate(client.get(), Request());
  lane_.set_refusal(absl::UnavailableError("gone"));
  lane_.EndLanes("the server drains");
  EXPECT_THAT(std::string(call.get().status().message()),
              testing::HasSubstr("the server drains"));
  EXPECT_EQ(client->GemmFuture(Request()).get().status().code(),
            absl::StatusCode::kUnavailable);
  lane_.OpenGate();
}

TEST_F(LaneAsyncTest, WhatTheLaneDoesNotCarryGoesByGrpc) {
  const auto client = Connect();
  GemmRequest unknown = Request();
  unknown.weights = "unknown";
  EXPECT_EQ(client->GemmFuture(unknown).get()->c, GrpcAnswer());
  GemmRequest wrong = Request();  // another shape than the lane's
  wrong.m = 1;
  EXPECT_EQ(client->GemmFuture(wrong).get()->c, GrpcAnswer());
  EXPECT_EQ(lane_.requests(), 0);
  EXPECT_EQ(client->GemmFuture(Request()).get()->c, LaneAnswer());
}

TEST_F(LaneAsyncTest, FullQueuesAreTriedAgainByGrpc) {
  const auto client = Connect();
  lane_.set_handler([](const FakeLane::Request&) {
    return FakeLane::Answer{absl::ResourceExhaustedError("queue is full"),
                            absl::Milliseconds(1)};
  });
  const Result result = client->GemmFuture(Request()).get();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->c, GrpcAnswer());
  EXPECT_EQ(result->attempts, 2);
  EXPECT_EQ(lane_.requests(), 1);
}

TEST_F(LaneAsyncTest, CancelledCallEndsAndItsMemoryComesBackWithTheAnswer) {
  options_.lane_options.calls = 8;
  const auto client = Connect();
  ASSERT_TRUE(client->Gemm(Request()).ok());
  lane_.CloseGate();
  for (int i = 0; i < 8; ++i) {
    std::promise<absl::Status> status;
    const GemmHandle handle = client->GemmAsync(
        Request(),
        [&](const Result& result) { status.set_value(result.status()); });
    handle.Cancel();
    EXPECT_EQ(status.get_future().get().code(), absl::StatusCode::kCancelled);
  }
  EXPECT_EQ(client->Gemm(Request())->c, GrpcAnswer());  // all slots are in use
  lane_.OpenGate();
  while (client->Gemm(Request())->c != LaneAnswer()) {
    absl::SleepFor(absl::Milliseconds(1));
  }
}

TEST_F(LaneAsyncTest, CallIsCancelledBeforeItsTargetIsOpen) {
  for (int i = 0; i < 20; ++i) {
    const auto client = Connect();
    lane_.CloseGate();
    std::promise<absl::Status> status;
    client
        ->GemmAsync(
            Request(),
            [&](const Result& result) { status.set_value(result.status()); })
        .Cancel();
    EXPECT_EQ(status.get_future().get().code(), absl::StatusCode::kCancelled);
    lane_.OpenGate();
  }
}

TEST_F(LaneAsyncTest, DeadlineAndCancelEndCallsWhoseTargetIsNotOpened) {
  const auto client = Connect();
  lane_.HoldOpens();
  GemmRequest request = Request();
  int released = 0;
  request.a_released = [&] { ++released; };
  request.deadline = absl::Now() + absl::Milliseconds(50);
  EXPECT_EQ(client->GemmFuture(request).get().status().code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_GE(absl::Now(), request.deadline);
  EXPECT_EQ(released, 1);
  request.deadline = absl::InfinitePast();
  EXPECT_EQ(client->GemmFuture(request).get().status().code(),
            absl::StatusCode::kDeadlineExceeded);
  std::promise<absl::Status> status;
  client
      ->GemmAsync(
          Request(),
          [&](const Result& result) { status.set_value(result.status()); })
      .Cancel();
  EXPECT_EQ(status.get_future().get().code(), absl::StatusCode::kCancelled);
  auto late = client->GemmFuture(Request());
  lane_.ReleaseOpens();
  EXPECT_EQ(late.get()->c, LaneAnswer());
  EXPECT_EQ(lane_.requests(), 1);
}

TEST_F(LaneAsyncTest, DestroyingTheClientCancelsCallsWhoseTargetIsNotOpened) {
  auto client = Connect();
  lane_.HoldOpens();
  auto call = client->GemmFuture(Request());
  client.reset();
  EXPECT_EQ(call.get().status().code(), absl::StatusCode::kCancelled);
}

TEST_F(LaneAsyncTest, CancelReachesACallThatWentOnByGrpc) {
  const auto client = Connect();
  service_.CloseGate();
  lane_.CloseGate();
  std::promise<absl::Status> status;
  const GemmHandle handle = client->GemmAsync(
      Request(),
      [&](const Result& result) { status.set_value(result.status()); });
  lane_.AwaitAtGate(1);
  lane_.DropLanes();
  service_.AwaitAtGate(1);
  handle.Cancel();
  EXPECT_EQ(status.get_future().get().code(), absl::StatusCode::kCancelled);
  service_.OpenGate();
}

TEST_F(LaneAsyncTest, DeadlineEndsACallUnlessTheServerWritesInPlace) {
  const auto client = Connect();
  auto c = client->AllocateOperands(kCBytes);
  ASSERT_TRUE(c.ok());
  GemmRequest request = Request();
  request.deadline = absl::Now() + absl::Milliseconds(200);
  auto call = GemmAtGate(client.get(), request);
  request.c = c->bytes();
  auto in_place = client->GemmFuture(request);
  EXPECT_EQ(call.get().status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(in_place.wait_for(std::chrono::milliseconds(100)),
            std::future_status::timeout);
  lane_.OpenGate();
  EXPECT_TRUE(in_place.get().ok());
}

TEST_F(LaneAsyncTest, DestroyingTheClientCancelsItsCalls) {
  auto client = Connect();
  auto call = GemmAtGate(client.get(), Request());
  client.reset();
  EXPECT_EQ(call.get().status().code(), absl::StatusCode::kCancelled);
}

TEST_F(LaneAsyncTest, CallbacksMayStartCallsAndDestroyTheClientButNotWait) {
  auto client = Connect();
  std::promise<void> done;
  client->GemmAsync(Request(), [&](const Result& result) {
    EXPECT_TRUE(result.ok());
    EXPECT_EQ(client->Gemm(Request()).status().code(),
              absl::StatusCode::kFailedPrecondition);
    client->GemmAsync(Request(), [&](const Result& second) {
      EXPECT_EQ(second->c, LaneAnswer());
      client.reset();
      done.set_value();
    });
  });
  done.get_future().wait();
  EXPECT_EQ(client, nullptr);
}

// Calls that wait lap the ring of done words while nobody reads it.
TEST_F(LaneAsyncTest, CallsOfBothKindsGetTheirOwnAnswers) {
  for (const absl::Duration spin :
       {absl::ZeroDuration(), absl::Microseconds(20)}) {
    options_.lane_options.spin = spin;
    const auto client = Connect();
    std::vector<std::thread> threads;
    for (int number = 0; number < 4; ++number) {
      threads.emplace_back([&, number] {
        for (int i = 0; i < 300; ++i) {
          const std::vector<uint8_t> a = OperandOf(number, i);
          GemmRequest request = Request();
          request.a = a;
          const Result result = i % 40 < 25 ? client->Gemm(request)
                                            : client->GemmFuture(request).get();
          ASSERT_TRUE(result.ok()) << result.status();
          ASSERT_EQ(result->c, std::string(a.begin(), a.begin() + kCBytes));
        }
      });
    }
    for (std::thread& each : threads) each.join();
  }
  EXPECT_EQ(lane_.requests(), 2 * 4 * 300);
}

}  // namespace
}  // namespace qgemm
