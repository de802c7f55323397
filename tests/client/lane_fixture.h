// SPDX-License-Identifier: Apache-2.0
//
// A client with a lane, of a fake service and a fake lane. The service answers
// a Gemm by 'g', so that a test sees which way a call went.

#ifndef QGEMM_TESTS_CLIENT_LANE_FIXTURE_H_
#define QGEMM_TESTS_CLIENT_LANE_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "qgemm/client.h"
#include "tests/client/fake_lane.h"
#include "tests/client/fake_service.h"

namespace qgemm {

// "layer" is [kN, kK]; "program" has rows of kRowBytes each way.
class LaneFixture : public testing::Test {
 protected:
  static constexpr int64_t kM = 3;
  static constexpr int64_t kK = 32;
  static constexpr int64_t kN = 16;
  static constexpr int64_t kRowBytes = 64;
  static constexpr int64_t kCBytes = kM * kN * 2;

  LaneFixture() : a_(kM * kK * 2) {
    for (size_t i = 0; i < a_.size(); ++i) a_[i] = static_cast<uint8_t>(i * 7);
    lane_.set_shape("layer", {kK, kN});
    lane_.set_shape("program", {kRowBytes, kRowBytes});
    service_.set_lane_path(lane_.path());
    service_.set_gemm([](const v1::GemmRequest&, v1::GemmResponse* response) {
      response->set_c(std::string(kCBytes, 'g'));
      return grpc::Status::OK;
    });
    options_.retry.initial_backoff = absl::Milliseconds(1);
    options_.retry.max_backoff = absl::Milliseconds(4);
    options_.lane_options.operand_bytes = 1 << 16;
    options_.lane_options.calls = 8;
  }

  std::unique_ptr<Client> Connect() {
    auto client = Client::Connect(service_.unix_address(), options_);
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }

  // m rows of fp16 through "layer".
  GemmRequest Request() const {
    GemmRequest request;
    request.weights = "layer";
    request.m = kM;
    request.a = a_;
    return request;
  }

  // A of a thread's i-th request.
  static std::vector<uint8_t> OperandOf(int thread, int i) {
    std::vector<uint8_t> a(kM * kK * 2);
    for (size_t j = 0; j < a.size(); ++j) {
      a[j] = static_cast<uint8_t>(thread * 31 + i * 7 + j);
    }
    return a;
  }

  // Answer of the lane to Request().
  std::string LaneAnswer() const {
    return std::string(a_.begin(), a_.begin() + kCBytes);
  }
  static std::string GrpcAnswer() { return std::string(kCBytes, 'g'); }

  static std::string TextOf(absl::Span<const uint8_t> bytes) {
    return std::string(bytes.begin(), bytes.end());
  }

  std::vector<uint8_t> a_;
  ClientOptions options_;
  FakeService service_;
  FakeLane lane_;
};

}  // namespace qgemm

#endif  // QGEMM_TESTS_CLIENT_LANE_FIXTURE_H_
