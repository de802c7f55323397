// SPDX-License-Identifier: Apache-2.0
//
// Codes and messages both ways, and the bytes of a retry's details.

#include "server/rpc/grpc_status.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/escaping.h"

namespace qgemm {
namespace {

TEST(GrpcStatus, KeepsEveryCodeAndItsMessage) {
  for (int code = 1; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "because");
    const grpc::Status translated = ToGrpcStatus(status);
    EXPECT_EQ(translated.error_code(), code);
    EXPECT_EQ(translated.error_message(), "because");
    EXPECT_EQ(FromGrpcStatus(translated), status);
  }
}

TEST(GrpcStatus, KeepsOk) {
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok());
  EXPECT_TRUE(ToRetryableGrpcStatus(absl::OkStatus(), absl::Seconds(1)).ok());
  EXPECT_TRUE(FromGrpcStatus(grpc::Status::OK).ok());
}

TEST(GrpcStatus, IsRetryableIfExhaustedAndOnlyThen) {
  const grpc::Status full =
      ToRetryableIfExhausted(absl::ResourceExhaustedError("full"));
  EXPECT_EQ(full.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_FALSE(full.error_details().empty());
  const grpc::Status wrong =
      ToRetryableIfExhausted(absl::InvalidArgumentError("wrong"));
  EXPECT_EQ(wrong.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_TRUE(wrong.error_details().empty());
}

TEST(GrpcStatus, EncodesRetryInfoAsGoogleRpcDoes) {
  const grpc::Status status = ToRetryableGrpcStatus(
      absl::ResourceExhaustedError("full"), absl::Milliseconds(2500));

  // What google.rpc's own classes serialize for the same status:
  // code 8, message "full", one Any with a RetryInfo of 2 s 500000000 ns.
  const std::string type = "type.googleapis.com/google.rpc.RetryInfo";
  const std::string duration =
      absl::HexStringToBytes("0802") + absl::HexStringToBytes("1080cab5ee01");
  const std::string retry_info =
      "\x0a" + std::string(1, duration.size()) + duration;
  const std::string any = "\x0a" + std::string(1, type.size()) + type + "\x12" +
                          std::string(1, retry_info.size()) + retry_info;
  const std::string expected = absl::HexStringToBytes("0808") +
                               absl::HexStringToBytes("1204") + "full" +
                               "\x1a" + std::string(1, any.size()) + any;
  EXPECT_EQ(absl::BytesToHexString(status.error_details()),
            absl::BytesToHexString(expected));
}

}  // namespace
}  // namespace qgemm
