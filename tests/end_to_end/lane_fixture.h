// SPDX-License-Identifier: Apache-2.0
//
// A server with a socket for lanes, and requests of lanes as those of gRPC.

#ifndef QGEMM_TESTS_END_TO_END_LANE_FIXTURE_H_
#define QGEMM_TESTS_END_TO_END_LANE_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "kernels/backends/backends.h"
#include "lane/segment.h"
#include "qgemm/v1/qgemm.pb.h"
#include "server/server_options.h"
#include "tests/end_to_end/client.h"
#include "tests/end_to_end/test_server.h"
#include "tests/lane/raw_lane.h"
#include "tests/support/seeds.h"
#include "tests/support/temporary_folder.h"

namespace qgemm {

inline constexpr uint64_t kLaneBytes = uint64_t{1} << 20;

inline ServerOptions LaneServerOptions(const TemporaryFolder& folder,
                                       BackendKind kind = BackendKind::kCpu) {
  ServerOptions options;
  options.backend.kind = kind;
  options.lane_listen = absl::StrCat("unix:", folder.path(), "/lane");
  return options;
}

// The entry of a Gemm whose A is at 0 of the operands and whose C is behind it.
// Copies A.
inline lane::RequestEntry ToEntry(const v1::GemmRequest& request, int64_t n,
                                  uint32_t handle, const RawLane& lane) {
  lane::RequestEntry entry;
  entry.handle = handle;
  entry.m = static_cast<uint32_t>(request.m());
  entry.a_bytes = request.a().size();
  entry.c_offset = (entry.a_bytes + 63) / 64 * 64;
  const v1::FloatType c_type = request.c_type() == v1::FLOAT_TYPE_UNSPECIFIED
                                   ? request.a_type()
                                   : request.c_type();
  entry.c_bytes = request.m() * n * (c_type == v1::FLOAT_TYPE_FP32 ? 4 : 2);
  entry.a_type = static_cast<uint8_t>(request.a_type());
  entry.c_type = static_cast<uint8_t>(request.c_type());
  entry.mode = static_cast<uint8_t>(request.mode());
  entry.rounding = static_cast<uint8_t>(request.rounding());
  entry.cookie = 1;
  std::memcpy(lane.operands(), request.a().data(), request.a().size());
  return entry;
}

inline std::string ResultOf(const lane::RequestEntry& entry,
                            const RawLane& lane) {
  return std::string(
      reinterpret_cast<const char*>(lane.operands() + entry.c_offset),
      entry.c_bytes);
}

// A lane with an open layer on a server whose launches can be held.
class LaneOnHeldServerTest : public ::testing::Test {
 protected:
  explicit LaneOnHeldServerTest(bool device_operands = false)
      : server_(Options(folder_, device_operands)) {
    constexpr int64_t kSize = 64;
    LoadLayer(client_, kSize, kSize, &random_);
    EXPECT_TRUE(lane_->Hello(kLaneBytes, 8).ok());
    request_ = MakeGemm("layer", 2, kSize, &random_);
    expected_ = client_.Gemm(request_).response.c();
    // The call gives its operand's memory back behind its answer; the lane
    // keeps its own.
    while (server_.backend().leases() > 1) std::this_thread::yield();
    entry_ =
        ToEntry(request_, kSize,
                lane_->Open(lane::HandleKind::kWeights, "layer").message.handle,
                *lane_);
  }

  static ServerOptions Options(const TemporaryFolder& folder,
                               bool device_operands) {
    ServerOptions options = LaneServerOptions(folder);
    options.allow_device_operands = device_operands;
    return options;
  }

  RandomGenerator random_{FreshSeed()};
  TemporaryFolder folder_;
  HeldServer server_;
  const Client client_ = server_.NewClient();
  std::unique_ptr<RawLane> lane_ =
      std::make_unique<RawLane>(folder_.File("lane"));
  v1::GemmRequest request_;
  std::string expected_;  // C of the request
  lane::RequestEntry entry_;
};

}  // namespace qgemm

#endif  // QGEMM_TESTS_END_TO_END_LANE_FIXTURE_H_
