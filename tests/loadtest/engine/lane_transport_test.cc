// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "loadtest/engine/transport.h"
#include "tests/client/fake_lane.h"
#include "tests/loadtest/engine/transport_fixture.h"

namespace qgemm::loadtest {
namespace {

using ::testing::StartsWith;

class LaneTransportTest : public TransportTest {
 protected:
  LaneTransportTest() {
    options_.target = service_.unix_address();
    service_.set_lane_path(lane_.path());
    lane_.set_shape("layer0", {1, 1});
    lane_.set_shape("layer1", {1, 1});
    lane_.set_shape("program", {2, 2});
    RunRequest run;
    run.program = "program";
    run.m = 2;
    const auto inputs =
        std::make_shared<const std::vector<uint8_t>>(4, uint8_t{'r'});
    run.inputs = {*inputs};
    messages_.AddRun(run, inputs);
  }

  std::unique_ptr<Transport> Open() {
    return TransportTest::Open(LaneTransports(options_, &messages_));
  }

  FakeLane lane_;
};

TEST_F(LaneTransportTest, SendsGemmsAndRunsByTheLane) {
  const auto transport = Open();
  const int calls = service_.calls();
  const std::vector<std::string> answers = {"abcd", "efgh", "rrrr"};
  for (int round = 0; round < 3; ++round) {  // a slot serves again
    for (int slot = 0; slot < kSlots; ++slot) {
      transport->Start(slot, slot % 3, absl::InfiniteDuration());
    }
    for (int slot = 0; slot < kSlots; ++slot) {
      const End end = sink_.Await(slot);
      ASSERT_TRUE(end.status.ok()) << end.status;
      EXPECT_EQ(end.c, answers[slot % 3]);
    }
  }
  EXPECT_EQ(lane_.requests(), 3 * kSlots);
  EXPECT_EQ(service_.calls(), calls);
}

TEST_F(LaneTransportTest, RequestsHaveTheirDeadlineAndTheirSlotsClientId) {
  options_.client_id_prefix = "load";
  const auto transport = Open();
  transport->Start(1, 0, kTimeout);
  ASSERT_TRUE(sink_.Await(1).status.ok());
  const FakeLane::Request sent = lane_.last_request();
  EXPECT_EQ(sent.client_id, "load-0-1");
  EXPECT_GT(sent.entry.timeout_ns, 0u);
  EXPECT_LE(sent.entry.timeout_ns,
            static_cast<uint64_t>(absl::ToInt64Nanoseconds(kTimeout)));
}

TEST_F(LaneTransportTest, FailuresAreNotRepeated) {
  lane_.set_handler([](const FakeLane::Request&) {
    return FakeLane::Answer{absl::ResourceExhaustedError("queue is full"),
                            absl::Milliseconds(1)};
  });
  const auto transport = Open();
  transport->Start(0, 0, absl::InfiniteDuration());
  EXPECT_EQ(sink_.Await(0).status,
            absl::ResourceExhaustedError("queue is full"));
  EXPECT_EQ(lane_.requests(), 1);
}

TEST_F(LaneTransportTest, DoesNotOpenWithoutALane) {
  service_.set_lane_path("");
  const absl::Status status =
      LaneTransports(options_, &messages_)(kSlots, &sink_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), StartsWith("open a lane at"));
}

}  // namespace
}  // namespace qgemm::loadtest
