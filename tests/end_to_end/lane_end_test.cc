// SPDX-License-Identifier: Apache-2.0
//
// Ends of lanes: drains answer what was accepted, and memory stays until the
// last launch has ended.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "tests/end_to_end/child_server.h"
#include "tests/end_to_end/lane_fixture.h"

namespace qgemm {
namespace {

constexpr uint32_t kUnavailable =
    static_cast<uint32_t>(absl::StatusCode::kUnavailable);

class HeldLaneTest : public LaneOnHeldServerTest {
 protected:
  HeldLaneTest() { server_.backend().Hold(); }

  // Publishes the entry in that slot, with a result of its own.
  lane::RequestEntry Publish(uint32_t slot) {
    lane::RequestEntry entry = entry_;
    entry.slot = slot;
    entry.c_offset += slot * 4096;
    lane_->Publish(entry);
    return entry;
  }
};

TEST_F(HeldLaneTest, ADrainAnswersWhatWasAcceptedToSleepers) {
  std::vector<lane::RequestEntry> entries;
  for (uint32_t slot = 0; slot < 4; ++slot) entries.push_back(Publish(slot));
  server_.backend().WaitForHeld(1);
  // Requests are taken in order: once this one is refused, all have been.
  lane::RequestEntry refused = entry_;
  refused.slot = 6;
  refused.m = 0;
  lane_->Publish(refused);
  ASSERT_TRUE(lane_->WaitForSlot(refused.slot, refused.cookie));
  std::vector<std::thread> sleepers;
  for (const lane::RequestEntry& entry : entries) {
    sleepers.emplace_back([this, &entry] {
      EXPECT_TRUE(lane_->WaitForSlot(entry.slot, entry.cookie));
      EXPECT_EQ(lane_->completion(entry.slot).code, 0u);
      EXPECT_EQ(ResultOf(entry, *lane_), expected_);
    });
  }
  std::thread drain(
      [this] { server_.test_server().server().Drain(absl::InfiniteFuture()); });
  // Requests are refused from now on, once the drain has begun.
  lane::RequestEntry late = entry_;
  late.slot = 7;
  late.c_offset += 7 * 4096;
  while (client_.Gemm(v1::GemmRequest()).status.error_code() !=
         grpc::StatusCode::UNAVAILABLE) {
  }
  late.cookie = 5;
  lane_->Publish(late);
  server_.backend().ReleaseAll();
  for (std::thread& sleeper : sleepers) sleeper.join();
  drain.join();
  if (lane_->WaitForSlot(7, 5)) {
    EXPECT_EQ(lane_->completion(7).code, kUnavailable);
  }
  EXPECT_EQ(lane_->head().ended.load(), kUnavailable);
  const auto end = lane_->WaitForEnd();
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->code(), kUnavailable);
}

TEST_F(HeldLaneTest, ThePollerEndsBatchesWhileItIsAwake) {
  server_.backend().ReleaseAll();
  const int64_t completed = server_.backend().completed();
  const int64_t polled = server_.backend().polled();
  const lane::RequestEntry entry = Publish(0);
  ASSERT_TRUE(lane_->WaitForSlot(entry.slot, entry.cookie));
  EXPECT_EQ(ResultOf(entry, *lane_), expected_);
  server_.backend().WaitForCompleted(completed + 1);
  EXPECT_EQ(server_.backend().polled(), polled + 1);
}

TEST_F(HeldLaneTest, TheBackendEndsBatchesWhileThePollerSleeps) {
  const int64_t polled = server_.backend().polled();
  const lane::RequestEntry entry = Publish(0);
  server_.backend().WaitForHeld(1);
  while (server_.backend().is_attended()) std::this_thread::yield();
  server_.backend().ReleaseAll();
  ASSERT_TRUE(lane_->WaitForSlot(entry.slot, entry.cookie));
  EXPECT_EQ(ResultOf(entry, *lane_), expected_);
  EXPECT_EQ(server_.backend().polled(), polled);
}

TEST_F(HeldLaneTest, MemoryStaysUntilTheLastLaunchOfAClientThatLeft) {
  const int64_t leases = server_.backend().leases();
  Publish(0);
  server_.backend().WaitForHeld(1);
  lane_.reset();
  RawLane other(folder_.File("lane"));
  ASSERT_TRUE(other.Hello(kLaneBytes).ok());
  EXPECT_EQ(server_.backend().leases(), leases + 1);
  server_.backend().ReleaseAll();
  while (server_.backend().leases() != leases) std::this_thread::yield();
}

TEST_F(HeldLaneTest, RequestsThatWaitAreDroppedWithTheirClient) {
  Publish(0);
  server_.backend().WaitForHeld(1);
  const int64_t enqueued = server_.backend().enqueued();
  for (uint32_t slot = 1; slot < 8; ++slot) Publish(slot);
  while (lane_->head().server_sleeps.load() == 0) std::this_thread::yield();
  const int64_t leases = server_.backend().leases();
  lane_->HangUp();
  while (lane_->head().ended.load() == 0) std::this_thread::yield();
  server_.backend().ReleaseAll();
  while (server_.backend().leases() == leases) std::this_thread::yield();
  // The scheduler may have had a second launch in flight.
  EXPECT_LE(server_.backend().enqueued(), enqueued + 1);
}

// Its first request comes while the layer is read.
TEST(LaneStateTest, AnswersForALayerThatComesFromTheDisk) {
  constexpr int64_t kSize = 2048;
  const TemporaryFolder folder;
  ServerOptions options = LaneServerOptions(folder);
  options.state_dir = folder.File("state");
  RandomGenerator random(FreshSeed());
  const v1::GemmRequest request = MakeGemm("layer", 2, kSize, &random);
  std::string expected;
  {
    TestServer server(options);
    const Client client = server.NewClient();
    LoadLayer(client, kSize, kSize, &random);
    expected = client.Gemm(request).response.c();
  }
  const TestServer server(options);
  RawLane lane(folder.File("lane"));
  ASSERT_TRUE(lane.Hello(kLaneBytes).ok());
  const auto opened = lane.Open(lane::HandleKind::kWeights, "layer");
  ASSERT_TRUE(opened.ok()) << opened.text;
  const lane::RequestEntry entry =
      ToEntry(request, kSize, opened.message.handle, lane);
  ASSERT_TRUE(lane.Call(entry));
  EXPECT_EQ(lane.completion(0).code, 0u) << lane.MessageOf(0);
  EXPECT_EQ(ResultOf(entry, lane), expected);
}

TEST(LaneProcessTest, SigtermEndsAnIdleServerWithSleepingLanes) {
  const TemporaryFolder folder;
  ChildServer server({"--listen=127.0.0.1:0", "--backend=cpu",
                      "--lane_listen=unix:" + folder.File("lane")});
  server.WaitForAddress();
  RawLane lane(folder.File("lane"));
  ASSERT_TRUE(lane.Hello(kLaneBytes).ok());
  std::thread sleeper(
      [&lane] { EXPECT_FALSE(lane.WaitForDone(0).has_value()); });
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0) << server.output();
  sleeper.join();
  EXPECT_EQ(lane.head().ended.load(), kUnavailable);
}

}  // namespace
}  // namespace qgemm
