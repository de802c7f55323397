// SPDX-License-Identifier: Apache-2.0
//
// Requests that are wrong as they stand: each gets its code and a message
// that names the field, and the server serves on.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/end_to_end/raw_call.h"
#include "tests/end_to_end/test_server.h"

namespace qgemm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Matcher;

constexpr int64_t kN = 48;
constexpr int64_t kK = 64;

class BadGemmTest : public ::testing::Test {
 protected:
  BadGemmTest()
      : random_(FreshSeed()),
        client_(server_.NewClient()),
        good_(MakeGemm("layer", 3, kK, &random_)) {
    LoadLayer(client_, kN, kK, &random_);
  }

  // The request is refused so, and a right one is answered after it.
  void ExpectRefused(const v1::GemmRequest& request, grpc::StatusCode code,
                     const Matcher<std::string>& message) {
    const auto answer = client_.Gemm(request);
    EXPECT_EQ(answer.status.error_code(), code);
    EXPECT_THAT(answer.status.error_message(), message);
    const auto after = client_.Gemm(good_);
    EXPECT_TRUE(after.ok()) << after.status.error_message();
  }

  RandomGenerator random_;
  TestServer server_;
  const Client client_;
  const v1::GemmRequest good_;
};

TEST_F(BadGemmTest, UnknownWeights) {
  v1::GemmRequest request = good_;
  request.set_weights("nobody");
  ExpectRefused(request, grpc::StatusCode::NOT_FOUND, HasSubstr("nobody"));
}

TEST_F(BadGemmTest, NoWeights) {
  v1::GemmRequest request = good_;
  request.clear_weights();
  const auto answer = client_.Gemm(request);
  EXPECT_FALSE(answer.ok());
}

TEST_F(BadGemmTest, OneByteTooFew) {
  v1::GemmRequest request = good_;
  request.mutable_a()->pop_back();
  ExpectRefused(request, grpc::StatusCode::INVALID_ARGUMENT,
                AllOf(HasSubstr("a has 383 bytes"), HasSubstr("384")));
}

TEST_F(BadGemmTest, OneByteTooMany) {
  v1::GemmRequest request = good_;
  request.mutable_a()->push_back('\0');
  ExpectRefused(request, grpc::StatusCode::INVALID_ARGUMENT,
                AllOf(HasSubstr("a has 385 bytes"), HasSubstr("384")));
}

TEST_F(BadGemmTest, NoRows) {
  v1::GemmRequest request = good_;
  request.set_m(0);
  request.clear_a();
  ExpectRefused(request, grpc::StatusCode::INVALID_ARGUMENT,
                HasSubstr("m = 0"));
}

TEST_F(BadGemmTest, RowsAboveInt64) {
  for (const uint64_t m : {uint64_t{1} << 63, (uint64_t{1} << 63) - 1,
                           ~uint64_t{0}, uint64_t{1} << 57}) {
    v1::GemmRequest request = good_;
    request.set_m(m);
    ExpectRefused(request, grpc::StatusCode::INVALID_ARGUMENT,
                  HasSubstr("m = " + std::to_string(m)));
  }
}

TEST_F(BadGemmTest, ActivationsWithoutAType) {
  v1::GemmRequest request = good_;
  request.clear_a_type();
  ExpectRefused(request, grpc::StatusCode::INVALID_ARGUMENT,
                HasSubstr("a_type"));
}

TEST_F(BadGemmTest, TypesThatDoNotExist) {
  v1::GemmRequest request = good_;
  request.set_a_type(static_cast<v1::FloatType>(77));
  ExpectRefused(request, grpc::StatusCode::INVALID_ARGUMENT,
                HasSubstr("a_type = 77"));
  request = good_;
  request.set_c_type(static_cast<v1::FloatType>(78));
  ExpectRefused(request, grpc::StatusCode::INVALID_ARGUMENT,
                HasSubstr("c_type = 78"));
}

TEST_F(BadGemmTest, AnotherTypeThanTheBytesHave) {
  v1::GemmRequest request = good_;
  request.set_a_type(v1::FLOAT_TYPE_FP32);
  ExpectRefused(request, grpc::StatusCode::INVALID_ARGUMENT,
                AllOf(HasSubstr("384"), HasSubstr("768"), HasSubstr("fp32")));
}

TEST_F(BadGemmTest, AModeThatTheFormatLacks) {
  v1::GemmRequest request = good_;
  request.set_mode(v1::COMPUTE_MODE_A8);
  RandomGenerator random(FreshSeed());
  WeightsSpec spec;
  spec.format = WireFormat::kTernary;
  spec.n = kN;
  spec.k = kK;
  const auto loaded =
      client_.Load(ToMessages(MakeRandomUpload(spec, &random), "ternary"));
  ASSERT_TRUE(loaded.ok()) << loaded.status.error_message();
  request.set_weights("ternary");
  ExpectRefused(request, grpc::StatusCode::UNIMPLEMENTED, HasSubstr("A8"));
}

TEST_F(BadGemmTest, BytesThatAreNoMessage) {
  // A length-delimited field that says it is longer than the message.
  const RawAnswer answer = CallRaw(client_.channel(), "/qgemm.v1.Qgemm/Gemm",
                                   std::string("\x0a\x7f", 2));
  EXPECT_FALSE(answer.status.ok());
  const auto after = client_.Gemm(good_);
  EXPECT_TRUE(after.ok()) << after.status.error_message();
}

}  // namespace
}  // namespace qgemm
