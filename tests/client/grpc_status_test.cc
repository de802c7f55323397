// SPDX-License-Identifier: Apache-2.0

#include "client/grpc_status.h"

#include <gtest/gtest.h>

namespace qgemm {
namespace {

TEST(ToAbslStatus, KeepsCodeAndMessage) {
  EXPECT_TRUE(ToAbslStatus(grpc::Status::OK).ok());
  const absl::Status status = ToAbslStatus(
      grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "the queue is full"));
  EXPECT_EQ(status, absl::ResourceExhaustedError("the queue is full"));
}

TEST(ToAbslStatus, AResetCallIsUnavailable) {
  EXPECT_TRUE(absl::IsUnavailable(ToAbslStatus(grpc::Status::CANCELLED)));
}

TEST(LostAnswer, IsTheCallersDoing) {
  EXPECT_TRUE(absl::IsCancelled(LostAnswer(true, false)));
  EXPECT_TRUE(absl::IsCancelled(LostAnswer(true, true)));
  EXPECT_TRUE(absl::IsDeadlineExceeded(LostAnswer(false, true)));
}

TEST(LostAnswer, ElseIsTheServersFault) {
  EXPECT_EQ(LostAnswer(false, false),
            absl::InternalError("the server's answer has no message"));
}

}  // namespace
}  // namespace qgemm
