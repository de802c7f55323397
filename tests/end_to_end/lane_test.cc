// SPDX-License-Identifier: Apache-2.0
//
// Lanes beside gRPC: the same bits, the same errors, the same rights.

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "kernels/backends/backends.h"
#include "server/metrics/server_metrics.h"
#include "tests/end_to_end/access_server.h"
#include "tests/end_to_end/lane_fixture.h"
#include "tests/end_to_end/wire_header.h"
#include "tests/support/random_matrix.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kN = 128;
constexpr int64_t kK = 256;
constexpr auto kWeights = lane::HandleKind::kWeights;

uint32_t CodeOf(absl::StatusCode code) { return static_cast<uint32_t>(code); }

class LaneTest : public ::testing::TestWithParam<BackendKind> {
 protected:
  void SetUp() override {
    const ServerOptions options = LaneServerOptions(folder_, GetParam());
    const absl::Status usable = CreateBackend(options.backend).status();
    if (absl::IsFailedPrecondition(usable)) GTEST_SKIP() << usable;
    server_.emplace(options);
    client_ = std::make_unique<Client>(server_->address());
  }

  // A signature of each mode that the format has on the backend.
  static std::vector<v1::GemmRequest> Requests(const WeightsSpec& spec) {
    std::vector<v1::GemmRequest> requests(2);
    requests[0].set_a_type(v1::FLOAT_TYPE_FP16);
    requests[1].set_a_type(v1::FLOAT_TYPE_FP32);
    requests[1].set_c_type(v1::FLOAT_TYPE_BF16);
    requests[1].set_rounding(v1::FLOAT_TYPE_FP16);
    if (GetParam() == BackendKind::kCuda) return requests;
    v1::GemmRequest other;
    other.set_a_type(v1::FLOAT_TYPE_FP32);
    if (spec.format == WireFormat::kQ4_0) {
      other.set_mode(v1::COMPUTE_MODE_A8);
      requests.push_back(other);
    }
    if (spec.format == WireFormat::kTernary) {
      other.set_mode(v1::COMPUTE_MODE_A32);
      requests.push_back(other);
    }
    return requests;
  }

  void SetRows(int64_t m, v1::GemmRequest* request) {
    const FloatType type = request->a_type() == v1::FLOAT_TYPE_FP32
                               ? FloatType::kFloat32
                               : FloatType::kFloat16;
    const std::vector<uint8_t> a = RandomMatrix(type, m, kK, &random_);
    request->set_weights("layer");
    request->set_m(m);
    request->set_a(a.data(), a.size());
  }

  std::string path() const { return folder_.File("lane"); }

  RandomGenerator random_{FreshSeed()};
  TemporaryFolder folder_;
  std::optional<TestServer> server_;
  std::unique_ptr<Client> client_;
};

TEST_P(LaneTest, GivesTheBitsOfGemmForEveryFormat) {
  RawLane lane(path());
  ASSERT_TRUE(lane.Hello(kLaneBytes).ok());
  uint32_t cookie = 0;
  for (const NamedSpec& named : AllWireFormats(kN, kK)) {
    SCOPED_TRACE(named.name);
    const RandomUpload upload = MakeRandomUpload(named.spec, &random_);
    ASSERT_TRUE(client_->Load(ToMessages(upload, "layer")).ok());
    const auto opened = lane.Open(kWeights, "layer");
    ASSERT_TRUE(opened.ok()) << opened.text;
    EXPECT_EQ(opened.message.n, static_cast<uint64_t>(kN));
    EXPECT_EQ(opened.message.k, static_cast<uint64_t>(kK));
    for (v1::GemmRequest& request : Requests(named.spec)) {
      for (const int64_t m : {1, 3, 70}) {
        SetRows(m, &request);
        const auto answer = client_->Gemm(request);
        ASSERT_TRUE(answer.ok()) << answer.status.error_message();
        lane::RequestEntry entry =
            ToEntry(request, kN, opened.message.handle, lane);
        entry.cookie = ++cookie;
        ASSERT_TRUE(lane.Call(entry));
        ASSERT_EQ(lane.completion(0).code, 0u) << lane.MessageOf(0);
        ASSERT_EQ(ResultOf(entry, lane), answer.response.c());
        EXPECT_GT(lane.completion(0).total_ns, 0u);
        EXPECT_EQ(lane.completion(0).launch_rows, m);
      }
    }
    EXPECT_TRUE(lane.Close(opened.message.handle).ok());
  }
}

TEST_P(LaneTest, GivesTheBitsOfRun) {
  LoadLayer(*client_, kN, kK, &random_);
  v1::LoadProgramRequest load;
  load.set_name("program");
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(
        revision: 1
        value_type: NUMBER_TYPE_FP32
        inputs { name: "x" width: 256 }
        ops { gemm { x: 0 weights: "layer" } }
        ops { act { x: 1 kind: KIND_SILU } }
        ops { top_k { x: 2 k: 4 } }
        outputs: [ 2, 4 ]
      )pb",
      load.mutable_program()));
  {
    grpc::ClientContext context;
    v1::LoadProgramResponse loaded;
    const grpc::Status status =
        client_->stub()->LoadProgram(&context, load, &loaded);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }
  RawLane lane(path());
  ASSERT_TRUE(lane.Hello(kLaneBytes).ok());
  const auto opened = lane.Open(lane::HandleKind::kProgram, "program");
  ASSERT_TRUE(opened.ok()) << opened.text;
  EXPECT_EQ(opened.message.input_row_bytes, kK * 4u);
  uint32_t cookie = 0;
  for (const int64_t m : {1, 5, 33}) {
    const std::vector<uint8_t> x =
        RandomMatrix(FloatType::kFloat32, m, kK, &random_);
    v1::RunRequest request;
    request.set_program("program");
    request.set_m(m);
    request.set_inputs(x.data(), x.size());
    grpc::ClientContext context;
    v1::RunResponse response;
    const grpc::Status status =
        client_->stub()->Run(&context, request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    lane::RequestEntry entry;
    entry.handle = opened.message.handle;
    entry.m = static_cast<uint32_t>(m);
    entry.slot = 3;
    entry.cookie = ++cookie;
    entry.a_bytes = x.size();
    entry.c_offset = (x.size() + 63) / 64 * 64;
    entry.c_bytes = m * opened.message.output_row_bytes;
    std::memcpy(lane.operands(), x.data(), x.size());
    ASSERT_TRUE(lane.Call(entry));
    ASSERT_EQ(lane.completion(3).code, 0u) << lane.MessageOf(3);
    EXPECT_EQ(ResultOf(entry, lane), response.outputs());
  }
}

TEST_P(LaneTest, ServesManyRequestsAtOnceInTheirSlots) {
  constexpr uint32_t kRequests = 1000;
  LoadLayer(*client_, kN, kK, &random_);
  v1::GemmRequest request;
  request.set_a_type(v1::FLOAT_TYPE_FP16);
  SetRows(2, &request);
  const std::string expected = client_->Gemm(request).response.c();
  RawLane lane(path());
  ASSERT_TRUE(lane.Hello(kLaneBytes, 16).ok());
  ASSERT_EQ(lane.layout().slots, 16u);
  const auto opened = lane.Open(kWeights, "layer");
  lane::RequestEntry entry = ToEntry(request, kN, opened.message.handle, lane);
  const uint64_t first_c = entry.c_offset;
  std::vector<uint32_t> free_slots;
  for (uint32_t slot = 0; slot < 16; ++slot) free_slots.push_back(slot);
  uint64_t done = 0;
  for (uint32_t i = 0; i < kRequests || done < kRequests;) {
    if (i < kRequests && !free_slots.empty()) {
      entry.slot = free_slots.back();
      free_slots.pop_back();
      entry.cookie = ++i;
      entry.c_offset = first_c + entry.slot * 4096;
      std::memset(lane.operands() + entry.c_offset, 0xff, entry.c_bytes);
      lane.Publish(entry);
      continue;
    }
    const auto slot = lane.WaitForDone(done++);
    ASSERT_TRUE(slot.has_value());
    ASSERT_EQ(lane.completion(*slot).code, 0u) << lane.MessageOf(*slot);
    entry.c_offset = first_c + *slot * 4096;
    ASSERT_EQ(ResultOf(entry, lane), expected);
    free_slots.push_back(*slot);
  }
}

TEST_P(LaneTest, TellsWhatGemmTells) {
  LoadLayer(*client_, kN, kK, &random_);
  RawLane lane(path());
  ASSERT_TRUE(lane.Hello(kLaneBytes).ok());
  const auto unknown = lane.Open(kWeights, "nothing");
  EXPECT_EQ(unknown.code(), CodeOf(absl::StatusCode::kNotFound));
  EXPECT_THAT(unknown.text, HasSubstr("nothing"));
  const auto opened = lane.Open(kWeights, "layer");
  uint32_t cookie = 0;
  const auto expect = [&](v1::GemmRequest request) {
    const auto answer = client_->Gemm(request);
    ASSERT_FALSE(answer.ok());
    lane::RequestEntry entry =
        ToEntry(request, kN, opened.message.handle, lane);
    entry.cookie = ++cookie;
    ASSERT_TRUE(lane.Call(entry));
    EXPECT_EQ(lane.completion(0).code,
              static_cast<uint32_t>(answer.status.error_code()));
    EXPECT_EQ(lane.MessageOf(0), answer.status.error_message());
  };
  v1::GemmRequest request;
  request.set_a_type(v1::FLOAT_TYPE_FP16);
  SetRows(2, &request);
  v1::GemmRequest wrong = request;
  wrong.set_m(3);
  expect(wrong);
  wrong.set_m(0);
  expect(wrong);
  wrong = request;
  wrong.set_a_type(static_cast<v1::FloatType>(9));
  expect(wrong);
  wrong = request;
  wrong.set_mode(static_cast<v1::ComputeMode>(9));
  expect(wrong);
  ASSERT_TRUE(client_->Unload("layer").ok());
  expect(request);
}

TEST_P(LaneTest, ANameThatIsBoundAnewIsServedAnew) {
  LoadLayer(*client_, kN, kK, &random_);
  RawLane lane(path());
  ASSERT_TRUE(lane.Hello(kLaneBytes).ok());
  const auto opened = lane.Open(kWeights, "layer");
  v1::GemmRequest request;
  request.set_a_type(v1::FLOAT_TYPE_FP16);
  SetRows(2, &request);
  LoadLayer(*client_, kN, kK, &random_);
  lane::RequestEntry entry = ToEntry(request, kN, opened.message.handle, lane);
  ASSERT_TRUE(lane.Call(entry));
  EXPECT_EQ(ResultOf(entry, lane), client_->Gemm(request).response.c());
  LoadLayer(*client_, 2 * kN, kK, &random_);
  entry.cookie = 2;
  ASSERT_TRUE(lane.Call(entry));
  EXPECT_EQ(lane.completion(0).code,
            CodeOf(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(lane.MessageOf(0), HasSubstr("c_bytes = 512"));
}

TEST_P(LaneTest, ServerInfoTellsItsPathOnThisHost) {
  EXPECT_EQ(client_->Info().lane_path(), path());
}

TEST_P(LaneTest, RefusesMoreMemoryThanItsBounds) {
  RawLane lane(path());
  const auto reply = lane.Hello(uint64_t{3} << 30);
  EXPECT_EQ(reply.code(), CodeOf(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(reply.text, HasSubstr("--max_client_lane_bytes"));
  const auto end = lane.WaitForEnd();
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->code(), reply.code());
}

TEST_P(LaneTest, GivesItsMemoryBackWhenItsClientHangsUp) {
  for (int i = 0; i < 10; ++i) {  // each half of what a client may have
    auto lane = std::make_unique<RawLane>(path());
    LaneReply<lane::Accept> reply = lane->Hello(uint64_t{256} << 20);
    while (!reply.ok()) {  // until the server has seen the end before
      lane = std::make_unique<RawLane>(path());
      reply = lane->Hello(uint64_t{256} << 20);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, LaneTest,
                         ::testing::Values(BackendKind::kCpu,
                                           BackendKind::kCuda),
                         [](const ::testing::TestParamInfo<BackendKind>& info) {
                           return std::string(Name(info.param));
                         });

TEST(LaneIdleTest, NobodyIsWoken) {
  RandomGenerator random(FreshSeed());
  const TemporaryFolder folder;
  ServerOptions options = LaneServerOptions(folder);
  options.metrics_listen = "127.0.0.1:0";
  TestServer server(options);
  const Client client = server.NewClient();
  LoadLayer(client, kN, kK, &random);
  RawLane lane(folder.File("lane"));
  ASSERT_TRUE(lane.Hello(kLaneBytes).ok());
  const auto opened = lane.Open(kWeights, "layer");
  const v1::GemmRequest request = MakeGemm("layer", 1, kK, &random);
  ASSERT_TRUE(lane.Call(ToEntry(request, kN, opened.message.handle, lane)));
  while (lane.head().server_sleeps.load() == 0) std::this_thread::yield();
  const int port = server.server().metrics_port();
  const double wakes = ScrapeMetric(port, "qgemm_lane_wakes_total");
  absl::SleepFor(absl::Milliseconds(300));
  EXPECT_EQ(ScrapeMetric(port, "qgemm_lane_wakes_total"), wakes);
  EXPECT_EQ(ScrapeMetric(port, "qgemm_connections{transport=\"lane\"}"), 1);
  lane.HangUp();
  while (ScrapeMetric(port, "qgemm_lanes_ended_total{reason=\"hangup\"}") ==
         0) {
  }
}

// The accept's answer to a client that shows that token.
uint32_t HelloCode(const std::string& path, const std::string& token) {
  RawLane lane(path);
  return lane.Hello(kLaneBytes, 0, token).code();
}

TEST(LaneAccessTest, KnowsClientsByTokenAndUserAndTheirRights) {
  const TemporaryFolder folder;
  AccessServer server(TableOf({{"anna", {MatchToken("a")}, {"compute"}},
                               {"bert", {MatchToken("b")}, {"load"}}}),
                      LaneServerOptions(folder));
  const std::string path = folder.File("lane");
  EXPECT_EQ(HelloCode(path, "a"), 0u);
  EXPECT_EQ(HelloCode(path, "b"), CodeOf(absl::StatusCode::kPermissionDenied));
  EXPECT_EQ(HelloCode(path, "c"), CodeOf(absl::StatusCode::kUnauthenticated));
  EXPECT_EQ(HelloCode(path, ""), CodeOf(absl::StatusCode::kUnauthenticated));
}

TEST(LaneAccessTest, AClientThatLosesItsRightIsRefused) {
  const TemporaryFolder folder;
  AccessServer server(TableOf({{"me", {MatchThisUser()}, {"compute"}}}),
                      LaneServerOptions(folder));
  RawLane lane(folder.File("lane"));
  ASSERT_TRUE(lane.Hello(kLaneBytes).ok());
  EXPECT_EQ(lane.Open(kWeights, "layer").code(),
            CodeOf(absl::StatusCode::kNotFound));
  server.WriteTable(TableOf({{"me", {MatchThisUser()}, {"load"}}}));
  lane::RequestEntry entry;
  do {
    ++entry.cookie;
    ASSERT_TRUE(lane.Call(entry));
    ASSERT_NE(lane.completion(0).code, 0u);
  } while (lane.completion(0).code !=
           CodeOf(absl::StatusCode::kPermissionDenied));
  EXPECT_EQ(lane.Open(kWeights, "layer").code(),
            CodeOf(absl::StatusCode::kPermissionDenied));
}

}  // namespace
}  // namespace qgemm
