// SPDX-License-Identifier: Apache-2.0
//
// Operands through the server: their bits, messages of unusual forms, and
// answers that are being sent while the server drains.

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/end_to_end/client.h"
#include "tests/end_to_end/raw_call.h"
#include "tests/end_to_end/test_server.h"

namespace qgemm {
namespace {

constexpr char kGemm[] = "/qgemm.v1.Qgemm/Gemm";
constexpr int64_t kN = 4096;
constexpr int64_t kK = 2048;

class OperandsTest : public ::testing::Test {
 protected:
  TestServer server_;
  RandomGenerator random_;
};

// Operands of 512 KiB and 1 MiB come and go in many slices.
TEST_F(OperandsTest, LargeOperandsGiveTheBitsOfSmallOnes) {
  const Client client = server_.NewClient();
  LoadLayer(client, kN, kK, &random_);
  const v1::GemmRequest whole = MakeGemm("layer", 128, kK, &random_);
  const auto answer = client.Gemm(whole);
  ASSERT_TRUE(answer.ok()) << answer.status.error_message();
  ASSERT_EQ(answer.response.c().size(), 128u * kN * 2);
  for (int row : {0, 77, 127}) {
    v1::GemmRequest single = whole;
    single.set_m(1);
    single.set_a(whole.a().substr(row * kK * 2, kK * 2));
    const auto alone = client.Gemm(single);
    ASSERT_TRUE(alone.ok()) << alone.status.error_message();
    EXPECT_EQ(alone.response.c(),
              answer.response.c().substr(row * kN * 2, kN * 2));
  }
}

TEST_F(OperandsTest, FieldsMayComeInAnyOrderAndMoreThanOnce) {
  const Client client = server_.NewClient();
  LoadLayer(client, 64, 64, &random_);
  const v1::GemmRequest request = MakeGemm("layer", 2, 64, &random_);
  v1::GemmRequest operand;
  operand.set_a(request.a());
  v1::GemmRequest rest = request;
  rest.clear_a();
  v1::GemmRequest other;
  other.set_a("overwritten");
  const RawAnswer answer =
      CallRaw(client.channel(), kGemm,
              other.SerializeAsString() + operand.SerializeAsString() +
                  rest.SerializeAsString());
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  v1::GemmResponse response;
  ASSERT_TRUE(response.ParseFromString(answer.bytes));
  EXPECT_EQ(response.c(), client.Gemm(request).response.c());
}

TEST_F(OperandsTest, BytesThatAreNoMessageAreRefused) {
  const Client client = server_.NewClient();
  for (const std::string& bytes :
       {std::string("\x7a\x05"
                    "abc"),
        std::string("\x0a\x02\xff\xfe", 4), std::string("\x07")}) {
    const RawAnswer answer = CallRaw(client.channel(), kGemm, bytes);
    EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(answer.status.error_message(),
              "the message does not parse as qgemm.v1.GemmRequest");
  }
}

TEST_F(OperandsTest, ADrainDuringAnswersLosesNothing) {
  const Client client = server_.NewClient();
  LoadLayer(client, kN, kK, &random_);
  const v1::GemmRequest request = MakeGemm("layer", 64, kK, &random_);
  const std::string expected = client.Gemm(request).response.c();
  std::vector<std::thread> callers;
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back([&] {
      const auto answer = server_.NewClient().Gemm(request);
      if (answer.ok()) {
        EXPECT_EQ(answer.response.c(), expected);
      } else {
        EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::UNAVAILABLE);
      }
    });
  }
  server_.server().Drain(absl::InfiniteFuture());
  for (std::thread& caller : callers) caller.join();
}

}  // namespace
}  // namespace qgemm
