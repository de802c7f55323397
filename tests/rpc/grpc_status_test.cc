// SPDX-License-Identifier: Apache-2.0
//
// Codes and messages both ways, and the bytes of a retry's details.

#include "rpc/grpc_status.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/time/clock.h"

namespace qgemm {
namespace {

TEST(ToGrpcStatus, KeepsEveryCodeAndItsMessage) {
  for (int code = 1; code <= 16; ++code) {
    const grpc::Status status = ToGrpcStatus(
        absl::Status(static_cast<absl::StatusCode>(code), "because"));
    EXPECT_EQ(status.error_code(), code);
    EXPECT_EQ(status.error_message(), "because");
    EXPECT_TRUE(status.error_details().empty());
  }
}

TEST(ToGrpcStatus, KeepsOk) {
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok());
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus(), absl::Seconds(1)).ok());
}

TEST(ToAbslStatus, KeepsEveryCodeButCancelled) {
  EXPECT_TRUE(ToAbslStatus(grpc::Status::OK).ok());
  for (int code = 2; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "because");
    EXPECT_EQ(ToAbslStatus(ToGrpcStatus(status)), status);
  }
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

TEST(RetryDelayOf, ReadsWhatToGrpcStatusWrites) {
  for (const absl::Duration delay :
       {absl::Nanoseconds(1), absl::Milliseconds(50), absl::Seconds(1),
        absl::Milliseconds(2500), absl::Hours(30)}) {
    EXPECT_EQ(
        RetryDelayOf(ToGrpcStatus(absl::ResourceExhaustedError("full"), delay)),
        delay);
  }
}

TEST(RetryDelayOf, IsNothingWithoutRetryInfo) {
  EXPECT_EQ(RetryDelayOf(grpc::Status::OK), std::nullopt);
  EXPECT_EQ(RetryDelayOf(ToGrpcStatus(absl::ResourceExhaustedError("full"))),
            std::nullopt);
}

TEST(WithRetryDelay, TravelsThroughGrpc) {
  const absl::Status status = WithRetryDelay(
      absl::ResourceExhaustedError("full"), absl::Milliseconds(2500));
  EXPECT_EQ(status.message(), "full");
  EXPECT_EQ(RetryDelayOf(status), absl::Milliseconds(2500));
  const grpc::Status sent = ToGrpcStatus(status);
  EXPECT_EQ(RetryDelayOf(sent), absl::Milliseconds(2500));
  EXPECT_EQ(RetryDelayOf(ToAbslStatus(sent)), absl::Milliseconds(2500));
  EXPECT_EQ(RetryDelayOf(absl::ResourceExhaustedError("full")), std::nullopt);
}

gpr_timespec MonotonicIn(int64_t seconds) {
  gpr_timespec deadline = gpr_now(GPR_CLOCK_MONOTONIC);
  deadline.tv_sec += seconds;
  return deadline;
}

TEST(DeadlineOf, IsByTheCallersClock) {
  const absl::Time now = absl::FromUnixSeconds(1000);
  const absl::Time deadline = DeadlineOf(MonotonicIn(60), now);
  EXPECT_LE(deadline, now + absl::Minutes(1));
  EXPECT_GT(deadline, now);
  EXPECT_LT(DeadlineOf(MonotonicIn(-60), now), now);
}

// grpc-timeout: 99999999H, the longest that the protocol can ask for.
TEST(DeadlineOf, AFarOneIsNoPastOne) {
  constexpr int64_t kSeconds = int64_t{99'999'999} * 3600;
  const absl::Time now = absl::Now();
  EXPECT_GT(DeadlineOf(MonotonicIn(kSeconds), now),
            now + absl::Seconds(kSeconds - 60));
}

TEST(DeadlineOf, NoneIsInfinite) {
  EXPECT_EQ(DeadlineOf(gpr_inf_future(GPR_CLOCK_REALTIME), absl::Now()),
            absl::InfiniteFuture());
  EXPECT_EQ(DeadlineOf(gpr_inf_future(GPR_CLOCK_MONOTONIC), absl::Now()),
            absl::InfiniteFuture());
}

// A status whose details are one Any of that type and value.
grpc::Status WithDetail(const std::string& type, const std::string& value) {
  const std::string any = "\x0a" + std::string(1, type.size()) + type + "\x12" +
                          std::string(1, value.size()) + value;
  return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "full",
                      "\x1a" + std::string(1, any.size()) + any);
}

TEST(RetryDelayOf, SkipsOtherDetails) {
  // Field 1 of a google.rpc.BadRequest is a message too.
  EXPECT_EQ(RetryDelayOf(WithDetail("type.googleapis.com/google.rpc.BadRequest",
                                    "\x0a\x02\x08\x02")),
            std::nullopt);
}

TEST(RetryDelayOf, SurvivesDamage) {
  const std::string type = "type.googleapis.com/google.rpc.RetryInfo";
  EXPECT_EQ(RetryDelayOf(WithDetail(type, "\x0a\x02\x08\x02")),
            absl::Seconds(2));
  EXPECT_EQ(RetryDelayOf(WithDetail(type, "\x0a\x7f\x08")), std::nullopt);
  EXPECT_EQ(RetryDelayOf(WithDetail(type, "\x08\x02")), std::nullopt);
  // Seconds = -1.
  EXPECT_EQ(RetryDelayOf(WithDetail(
                type, "\x0a\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")),
            std::nullopt);
  EXPECT_EQ(RetryDelayOf(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED,
                                      "full", "\xff\xff\xff")),
            std::nullopt);
}

TEST(ToGrpcStatus, EncodesRetryInfoAsGoogleRpcDoes) {
  const grpc::Status status = ToGrpcStatus(absl::ResourceExhaustedError("full"),
                                           absl::Milliseconds(2500));

  // The bytes that google.rpc's own classes serialize for the same status:
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
