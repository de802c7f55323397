// SPDX-License-Identifier: Apache-2.0
//
// Operands in memory of a GPU: by a lane where they lie, by nothing else, and
// never touched by the client. A file stands for the memory; the addresses that
// the client has of it may not be accessed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/types/span.h"
#include "base/check.h"
#include "base/file_descriptor.h"
#include "qgemm/gemm_stream.h"
#include "tests/client/lane_fixture.h"

namespace qgemm {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr int64_t kBytes = 1 << 16;

class LaneDeviceTest : public LaneFixture {
 protected:
  LaneDeviceTest() : file_(memfd_create("gpu", MFD_CLOEXEC)) {
    CHECK_EQ(ftruncate(file_.get(), kBytes), 0);
    server_view_ = Map(PROT_READ | PROT_WRITE);
    client_view_ = Map(PROT_NONE);
    DeviceOperands memory;
    memory.data = client_view_.data();
    memory.bytes = kBytes;
    memory.descriptor = file_.get();
    options_.lane_options.device_operands = {memory};
    options_.lane = LaneUse::kRequired;
    std::copy(a_.begin(), a_.end(), server_view_.begin());
  }

  ~LaneDeviceTest() override {
    munmap(server_view_.data(), kBytes);
    munmap(client_view_.data(), kBytes);
  }

  absl::Span<uint8_t> Map(int protection) const {
    void* const base =
        mmap(nullptr, kBytes, protection, MAP_SHARED, file_.get(), 0);
    CHECK(base != MAP_FAILED);
    return absl::MakeSpan(static_cast<uint8_t*>(base), kBytes);
  }

  // A at the beginning, C from kCOffset on.
  GemmRequest DeviceRequest() const {
    GemmRequest request = Request();
    request.a = client_view_.first(a_.size());
    request.c = client_view_.subspan(kCOffset, kCBytes);
    return request;
  }

  std::string DeviceAnswer() const {
    return TextOf(server_view_.subspan(kCOffset, kCBytes));
  }

  // The ends of the call, whose A is lent, by Gemm and by GemmFuture.
  static std::vector<absl::StatusCode> CodesOf(Client* client,
                                               GemmRequest request) {
    request.a_released = [] {};
    const absl::Status status = client->Gemm(request).status();
    const absl::Status async = client->GemmFuture(request).get().status();
    return {status.code(), async.code()};
  }

  // A client whose lane has "layer" open, or not.
  std::unique_ptr<Client> Connect(bool has_open) {
    auto client = LaneFixture::Connect();
    const bool is_made = !has_open || client->Gemm(DeviceRequest()).ok();
    EXPECT_TRUE(is_made);
    return client;
  }
  std::unique_ptr<Client> Connect() { return Connect(false); }

  static constexpr int64_t kCOffset = 4096;

  const FileDescriptor file_;
  absl::Span<uint8_t> server_view_;
  absl::Span<uint8_t> client_view_;
};

TEST_F(LaneDeviceTest, AreUsedWhereTheyLie) {
  const auto client = Connect();
  const int calls = service_.calls();
  const auto result = client->Gemm(DeviceRequest());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->c.empty());
  EXPECT_EQ(result->n, kN);
  EXPECT_EQ(DeviceAnswer(), LaneAnswer());
  const lane::RequestEntry sent = lane_.last_request().entry;
  EXPECT_EQ(sent.a_region, 1);
  EXPECT_EQ(sent.c_region, 1);
  EXPECT_EQ(sent.a_offset, 0u);
  EXPECT_EQ(sent.c_offset, static_cast<uint64_t>(kCOffset));

  // One operand there, the other on the host.
  GemmRequest to_host = DeviceRequest();
  to_host.c = {};
  EXPECT_EQ(client->Gemm(to_host)->c, LaneAnswer());
  GemmRequest from_host = DeviceRequest();
  from_host.a = a_;
  std::fill(server_view_.begin(), server_view_.end(), 0);
  ASSERT_TRUE(client->Gemm(from_host).ok());
  EXPECT_EQ(DeviceAnswer(), LaneAnswer());
  EXPECT_EQ(service_.calls(), calls);  // nothing by gRPC
}

TEST_F(LaneDeviceTest, ProgramsReadAndWriteThere) {
  const auto client = Connect();
  RunRequest request;
  request.program = "program";
  request.m = 2;
  request.inputs = {client_view_.first(32), client_view_.subspan(32, 96)};
  request.outputs = {client_view_.subspan(kCOffset, 2 * kRowBytes)};
  const std::string inputs = TextOf(server_view_.first(2 * kRowBytes));
  ASSERT_TRUE(client->Run(request).ok());
  EXPECT_EQ(TextOf(server_view_.subspan(kCOffset, 2 * kRowBytes)), inputs);
}

TEST_F(LaneDeviceTest, AsynchronousCallsLendThem) {
  const auto client = Connect();
  const auto end_of = [&](GemmRequest request) {
    std::promise<absl::Status> end;
    client->GemmAsync(request, [&](const absl::StatusOr<GemmResult>& result) {
      end.set_value(result.status());
    });
    return end.get_future().get();
  };
  int released = 0;
  GemmRequest request = DeviceRequest();
  request.a_released = [&] { ++released; };
  for (int i = 1; i <= 2; ++i) {  // the lane opens the layer, and has it open
    std::fill_n(server_view_.begin() + kCOffset, kCBytes, 0);
    EXPECT_EQ(end_of(request), absl::OkStatus());
    EXPECT_EQ(DeviceAnswer(), LaneAnswer());
    EXPECT_EQ(released, i);
  }
  const int calls = service_.calls();
  const absl::Status copied = end_of(DeviceRequest());
  EXPECT_EQ(copied.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(copied.message()), HasSubstr("a_released"));
  request.weights = "none";
  EXPECT_EQ(end_of(request).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(released, 3);
  EXPECT_EQ(service_.calls(), calls);
}

TEST_F(LaneDeviceTest, OperandOnTheHostThatIsNotLentIsCopiedBeforeTheReturn) {
  const auto client = Connect();
  lane_.HoldOpens();
  std::vector<uint8_t> a = a_;
  GemmRequest request = DeviceRequest();
  request.a = a;
  auto call = client->GemmFuture(request);
  std::fill(a.begin(), a.end(), 0);
  lane_.ReleaseOpens();
  ASSERT_TRUE(call.get().ok());
  EXPECT_EQ(DeviceAnswer(), LaneAnswer());
}

TEST_F(LaneDeviceTest, FaultsOfACallHaveTheSameCodesInBothWays) {
  GemmRequest late = DeviceRequest();
  late.deadline = absl::Now() - absl::Seconds(1);
  GemmRequest short_c = DeviceRequest();
  short_c.c = client_view_.subspan(kCOffset, kCBytes - 64);
  GemmRequest misaligned = DeviceRequest();
  misaligned.a = client_view_.subspan(32, a_.size());
  const std::vector<std::pair<GemmRequest, absl::StatusCode>> calls = {
      {late, absl::StatusCode::kDeadlineExceeded},
      {short_c, absl::StatusCode::kInvalidArgument},
      {misaligned, absl::StatusCode::kFailedPrecondition},
  };
  for (const auto& [request, code] : calls) {
    for (const bool has_open : {false, true}) {
      EXPECT_THAT(CodesOf(Connect(has_open).get(), request), Each(code));
    }
  }
}

TEST_F(LaneDeviceTest, CallsThatFindNoSlotAreToComeAgain) {
  lane_.set_shape("other", {kK, kN});
  const auto client = Connect(true);
  lane_.CloseGate();
  GemmRequest request = DeviceRequest();
  request.a_released = [] {};
  std::vector<std::future<absl::StatusOr<GemmResult>>> held;
  for (int i = 0; i < options_.lane_options.calls; ++i) {
    held.push_back(client->GemmFuture(request));
  }
  for (const char* weights : {"layer", "other"}) {
    request.weights = weights;
    EXPECT_THAT(CodesOf(client.get(), request),
                Each(absl::StatusCode::kResourceExhausted));
  }
  lane_.OpenGate();
  for (auto& each : held) EXPECT_TRUE(each.get().ok());
}

TEST_F(LaneDeviceTest, CallsThatFindNoRoomOnTheHostAreToComeAgain) {
  GemmRequest to_host = DeviceRequest();
  to_host.c = {};
  GemmRequest from_host = DeviceRequest();
  from_host.a = a_;
  for (const bool has_open : {false, true}) {
    const auto client = Connect(has_open);
    const auto all = client->AllocateOperands(1 << 16);
    ASSERT_TRUE(all.ok()) << all.status();
    EXPECT_THAT(CodesOf(client.get(), to_host),
                Each(absl::StatusCode::kResourceExhausted));
    EXPECT_THAT(CodesOf(client.get(), from_host),
                Each(absl::StatusCode::kResourceExhausted));
  }
}

TEST_F(LaneDeviceTest, CallsAreUnavailableUntilTheNextLane) {
  options_.retry.max_attempts = 1;
  for (const LaneUse use : {LaneUse::kRequired, LaneUse::kAuto}) {
    options_.lane = use;
    const auto client = Connect();
    lane_.set_refusal(absl::UnavailableError("not yet"));
    lane_.DropLanes();
    while (client->Connections()[0].has_lane) std::this_thread::yield();
    EXPECT_THAT(CodesOf(client.get(), DeviceRequest()),
                Each(absl::StatusCode::kUnavailable));
    lane_.set_refusal(absl::OkStatus());
  }
}

TEST_F(LaneDeviceTest, ShapeThatANameHasNowIsAskedForAtOnce) {
  GemmRequest narrower = DeviceRequest();
  narrower.a = client_view_.first(a_.size() / 2);
  for (const bool is_async : {false, true}) {
    lane_.set_shape("layer", {kK, kN});
    const auto client = Connect(true);
    lane_.set_shape("layer", {kK / 2, kN});
    narrower.a_released = [] {};
    const auto result =
        is_async ? client->GemmFuture(narrower).get() : client->Gemm(narrower);
    EXPECT_TRUE(result.ok()) << result.status();
  }
}

TEST_F(LaneDeviceTest, DeadlineEndsACallWhoseTargetIsNotOpened) {
  const auto client = Connect();
  lane_.HoldOpens();
  GemmRequest request = DeviceRequest();
  request.deadline = absl::Now() + absl::Milliseconds(50);
  EXPECT_THAT(CodesOf(client.get(), request),
              Each(absl::StatusCode::kDeadlineExceeded));
}

TEST_F(LaneDeviceTest, WhatNoLaneCarriesFailsAndIsNotRead) {
  const auto client = Connect();
  const int calls = service_.calls();
  const auto expect_refused = [&](const GemmRequest& request,
                                  const char* subject) {
    const absl::Status status = client->Gemm(request).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr(subject));
  };
  GemmRequest request = DeviceRequest();
  request.a = client_view_.subspan(32, a_.size());
  expect_refused(request, "a begins at byte 32 of memory of ClientOptions");
  request.a = absl::MakeConstSpan(client_view_.data() + kBytes - 64, a_.size());
  expect_refused(request, "a has 192 bytes from byte 65472");
  request = DeviceRequest();
  request.c = client_view_.subspan(kCOffset + 2, kCBytes);
  expect_refused(request, "c begins at byte 4098");
  request = DeviceRequest();
  request.weights = "none";
  EXPECT_EQ(client->Gemm(request).status().code(), absl::StatusCode::kNotFound);
  // Faults of the request itself are told as on the host.
  for (const int64_t m : {int64_t{0}, int64_t{-1}, kM + 2}) {
    request = DeviceRequest();
    request.m = m;
    EXPECT_EQ(client->Gemm(request).status().code(),
              absl::StatusCode::kInvalidArgument)
        << m;
  }
  request = DeviceRequest();
  request.c = client_view_.subspan(kCOffset, kCBytes - 64);
  const absl::Status short_c = client->Gemm(request).status();
  EXPECT_EQ(short_c.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(short_c.message()), HasSubstr("layer: the operands"));
  RunRequest run;
  run.program = "program";
  run.m = 1;
  run.inputs = {client_view_.first(32), client_view_.subspan(64, 32)};
  EXPECT_THAT(std::string(client->Run(run).status().message()),
              HasSubstr("an input lies in memory of"));
  EXPECT_EQ(service_.calls(), calls);
}

TEST_F(LaneDeviceTest, StreamsCarryNone) {
  const auto client = Connect();
  auto stream = client->GemmStream();
  ASSERT_TRUE(stream.ok()) << stream.status();
  bool released = false;
  GemmRequest request = DeviceRequest();
  request.a_released = [&] { released = true; };
  EXPECT_EQ(
      (*stream)->Submit(request, [](const auto&) { FAIL(); }).status().code(),
      absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(released);
}

TEST_F(LaneDeviceTest, NextLaneHasThemToo) {
  const auto client = Connect();
  ASSERT_TRUE(client->Gemm(DeviceRequest()).ok());
  lane_.DropLanes();
  while (lane_.lanes() < 2) std::this_thread::yield();
  options_.retry.max_attempts = 1;
  absl::Status status;
  do {
    status = client->Gemm(DeviceRequest()).status();
  } while (absl::IsUnavailable(status));
  EXPECT_EQ(status, absl::OkStatus());
  EXPECT_EQ(DeviceAnswer(), LaneAnswer());
}

TEST_F(LaneDeviceTest, ConnectTellsWhyTheServerTakesNone) {
  lane_.set_attach_status(absl::FailedPreconditionError("takes none"));
  const auto required = Client::Connect(service_.unix_address(), options_);
  EXPECT_EQ(required.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(required.status().message()),
              HasSubstr("takes none"));
  options_.lane = LaneUse::kAuto;
  const auto client = Connect();
  EXPECT_EQ(client->Gemm(Request())->c, GrpcAnswer());
  EXPECT_EQ(client->Gemm(DeviceRequest()).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(LaneDeviceTest, ConnectChecksWhatItIsGiven) {
  const auto message_of = [&] {
    const auto client = Client::Connect(service_.unix_address(), options_);
    EXPECT_EQ(client.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(client.status().message());
  };
  std::vector<DeviceOperands>& all = options_.lane_options.device_operands;
  all.resize(2);
  EXPECT_THAT(message_of(), HasSubstr("device_operands[1] has data null"));
  all.assign(17, all[0]);
  EXPECT_THAT(message_of(),
              HasSubstr("device_operands has 17 entries; a lane takes 16"));
}

}  // namespace
}  // namespace qgemm
