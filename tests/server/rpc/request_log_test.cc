// SPDX-License-Identifier: Apache-2.0
//
// The fields of the events about calls, and who is asked for their client.

#include "server/rpc/request_log.h"

#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

Peer TestPeer() {
  Peer peer;
  peer.identity = "uid 1000";
  peer.address = "127.0.0.1:40312";
  return peer;
}

class RequestLogTest : public ::testing::Test {
 protected:
  void SetUp() override { testing::internal::CaptureStderr(); }
  static std::string Captured() {
    return testing::internal::GetCapturedStderr();
  }

  void Refuse(const std::string& method, const absl::Status& status) {
    LogRefusal(method, status, [this] {
      ++peers_found_;
      return std::make_shared<const Peer>(TestPeer());
    });
  }

  int peers_found_ = 0;
};

TEST_F(RequestLogTest, ASlowRequestTellsItsTimesAndItsClient) {
  Weights layer;
  layer.id = "9f2c";
  AdmittedRequest request;
  request.layer = std::make_shared<const Weights>(layer);
  request.m = 8;
  request.identity = "uid 1000";
  request.client = "trainer\n";
  GemmTimings timings;
  timings.queue = absl::Milliseconds(1200);
  timings.kernel = absl::Milliseconds(250);
  timings.launch_rows = 64;
  LogSlowRequest({"Gemm", request, timings, absl::Milliseconds(1500)},
                 WeightStore(StoreLimits()));
  const std::string captured = Captured();
  EXPECT_THAT(captured, StartsWith("W "));
  EXPECT_THAT(captured,
              HasSubstr("] slow_request method=Gemm id=9f2c m=8 total=1.5s "
                        "queue=1.2s kernel=250ms launch_rows=64 "
                        "client=\"uid 1000\" client_id=\"trainer\\n\"\n"));
}

TEST_F(RequestLogTest, AnUnloadTellsItsClient) {
  LogUnload("layer.0", /*freed=*/true, TestPeer());
  EXPECT_THAT(Captured(),
              HasSubstr("] weights_unloaded weights=layer.0 freed=true "
                        "client=\"uid 1000\" address=127.0.0.1:40312\n"));
}

TEST_F(RequestLogTest, AProgramTellsWhetherItWasThereAlready) {
  LoggedProgram program = {"9f2c", "layer.0", 12, 4096, false};
  LogProgram(program, TestPeer());
  program.deduplicated = true;
  LogProgram(program, TestPeer());
  LogProgramUnload("layer.0", /*freed=*/true, TestPeer());
  const std::string captured = Captured();
  const std::string fields =
      " id=9f2c name=layer.0 ops=12 bytes=4096 client=\"uid 1000\" "
      "address=127.0.0.1:40312\n";
  EXPECT_THAT(captured, HasSubstr("] program_loaded" + fields));
  EXPECT_THAT(captured, HasSubstr("] program_bound" + fields));
  EXPECT_THAT(captured,
              HasSubstr("] program_unloaded program=layer.0 freed=true "
                        "client=\"uid 1000\" address=127.0.0.1:40312\n"));
}

TEST_F(RequestLogTest, ARefusalTellsItsErrorAndItsClient) {
  Refuse("Gemm", absl::ResourceExhaustedError("the queue is full"));
  const std::string captured = Captured();
  EXPECT_THAT(captured, StartsWith("W "));
  EXPECT_THAT(captured,
              HasSubstr("] request_refused method=Gemm code=RESOURCE_EXHAUSTED "
                        "error=\"the queue is full\" client=\"uid 1000\" "
                        "address=127.0.0.1:40312\n"));
}

TEST_F(RequestLogTest, ErrorsOfOursAreErrors) {
  Refuse("Gemm", absl::InternalError("the launch failed"));
  EXPECT_THAT(Captured(), StartsWith("E "));
}

TEST_F(RequestLogTest, ErrorsOfClientsAreInformation) {
  Refuse("Gemm", absl::NotFoundError("no weights are named x"));
  EXPECT_THAT(Captured(), StartsWith("I "));
}

TEST_F(RequestLogTest, GoodEndsAndVanishedClientsHaveNoLine) {
  Refuse("Gemm", absl::OkStatus());
  Refuse("Gemm", absl::CancelledError("the client left"));
  EXPECT_EQ(Captured(), "");
}

// Another method's refusals are seen beside a flood, and the flood asks for few
// clients.
TEST_F(RequestLogTest, AFloodIsCutForItsMethodAndCode) {
  for (int i = 0; i < 10'000; ++i) {
    Refuse("Echo", absl::InvalidArgumentError("m = 0"));
  }
  EXPECT_LT(peers_found_, 1000);
  Refuse("Echo", absl::NotFoundError("no weights"));
  Refuse("ListWeights", absl::InvalidArgumentError("page_token"));
  const std::string captured = Captured();
  EXPECT_THAT(captured, HasSubstr("method=Echo code=NOT_FOUND"));
  EXPECT_THAT(captured, HasSubstr("method=ListWeights code=INVALID_ARGUMENT"));
}

}  // namespace
}  // namespace qgemm
