// SPDX-License-Identifier: Apache-2.0

#include "client/retry.h"

#include <gtest/gtest.h>

namespace qgemm {
namespace {

RetryPolicy Policy() {
  RetryPolicy policy;
  policy.max_attempts = 10;
  policy.initial_backoff = absl::Milliseconds(100);
  policy.max_backoff = absl::Milliseconds(500);
  policy.multiplier = 2.0;
  policy.jitter = 0.0;
  return policy;
}

EndedAttempt Failed(int number) {
  EndedAttempt attempt;
  attempt.status = absl::UnavailableError("draining");
  attempt.number = number;
  attempt.now = absl::UnixEpoch();
  return attempt;
}

TEST(RetryPauseTest, GrowsByTheMultiplierUpToTheMaximum) {
  EXPECT_EQ(RetryPause(Policy(), Failed(1)), absl::Milliseconds(100));
  EXPECT_EQ(RetryPause(Policy(), Failed(2)), absl::Milliseconds(200));
  EXPECT_EQ(RetryPause(Policy(), Failed(3)), absl::Milliseconds(400));
  EXPECT_EQ(RetryPause(Policy(), Failed(4)), absl::Milliseconds(500));
  EXPECT_EQ(RetryPause(Policy(), Failed(9)), absl::Milliseconds(500));
}

TEST(RetryPauseTest, AnotherServerIsTriedAtOnce) {
  EndedAttempt attempt = Failed(1);
  attempt.has_other_server = true;
  EXPECT_EQ(RetryPause(Policy(), attempt), absl::ZeroDuration());
  attempt.number = Policy().max_attempts;
  EXPECT_EQ(RetryPause(Policy(), attempt), std::nullopt);
}

TEST(RetryPauseTest, JitterSpreadsEvenlyAroundTheBackoff) {
  RetryPolicy policy = Policy();
  policy.jitter = 0.5;
  EndedAttempt attempt = Failed(1);
  attempt.random = 0.0;
  EXPECT_EQ(RetryPause(policy, attempt), absl::Milliseconds(50));
  attempt.random = 0.5;
  EXPECT_EQ(RetryPause(policy, attempt), absl::Milliseconds(100));
  attempt.random = 1.0;
  EXPECT_EQ(RetryPause(policy, attempt), absl::Milliseconds(150));
}

TEST(RetryPauseTest, OnlyUnavailableIsRetried) {
  for (const auto code :
       {absl::StatusCode::kOk, absl::StatusCode::kCancelled,
        absl::StatusCode::kDeadlineExceeded, absl::StatusCode::kInternal,
        absl::StatusCode::kResourceExhausted, absl::StatusCode::kAborted}) {
    EndedAttempt attempt = Failed(1);
    attempt.status = absl::Status(code, "");
    EXPECT_EQ(RetryPause(Policy(), attempt), std::nullopt)
        << absl::StatusCodeToString(code);
  }
}

EndedAttempt Exhausted(absl::Duration retry_delay) {
  EndedAttempt attempt = Failed(3);
  attempt.status = absl::ResourceExhaustedError("the queue is full");
  attempt.retry_delay = retry_delay;
  return attempt;
}

TEST(RetryPauseTest, TakesTheServersDelayForAFullQueue) {
  EXPECT_EQ(RetryPause(Policy(), Exhausted(absl::Seconds(7))),
            absl::Seconds(7));
}

TEST(RetryPauseTest, NeverPausesLessThanTheServerNamed) {
  RetryPolicy policy = Policy();
  policy.jitter = 0.5;
  EndedAttempt attempt = Exhausted(absl::Seconds(2));
  attempt.random = 0.0;
  EXPECT_EQ(RetryPause(policy, attempt), absl::Seconds(2));
  attempt.random = 1.0;
  EXPECT_EQ(RetryPause(policy, attempt), absl::Seconds(3));
}

TEST(RetryPauseTest, AFullQueueIsNoReasonToHurryToAnotherServer) {
  EndedAttempt attempt = Exhausted(absl::Seconds(7));
  attempt.has_other_server = true;
  EXPECT_EQ(RetryPause(Policy(), attempt), absl::Seconds(7));
}

TEST(RetryPauseTest, AFullQueueIsNotRetriedIfThePolicySaysSo) {
  RetryPolicy policy = Policy();
  policy.honour_retry_info = false;
  EXPECT_EQ(RetryPause(policy, Exhausted(absl::Seconds(1))), std::nullopt);
}

TEST(RetryPauseTest, TheServersDelayKeepsAttemptsAndDeadline) {
  EndedAttempt attempt = Exhausted(absl::Seconds(1));
  attempt.deadline = attempt.now + absl::Seconds(1);
  EXPECT_EQ(RetryPause(Policy(), attempt), std::nullopt);
  attempt = Exhausted(absl::Seconds(1));
  attempt.number = Policy().max_attempts;
  EXPECT_EQ(RetryPause(Policy(), attempt), std::nullopt);
}

TEST(RetryPauseTest, WithoutADeadlineTheServersDelayHasABound) {
  RetryPolicy policy = Policy();
  policy.max_retry_delay = absl::Minutes(1);
  EXPECT_EQ(RetryPause(policy, Exhausted(absl::Minutes(1))), absl::Minutes(1));
  const absl::Duration longer = absl::Minutes(1) + absl::Nanoseconds(1);
  EXPECT_EQ(RetryPause(policy, Exhausted(longer)), std::nullopt);
  EXPECT_EQ(RetryPause(policy, Exhausted(absl::InfiniteDuration())),
            std::nullopt);
  // A deadline is the caller's own bound.
  EndedAttempt attempt = Exhausted(longer);
  attempt.deadline = attempt.now + absl::Hours(1);
  EXPECT_EQ(RetryPause(policy, attempt), longer);
}

TEST(RetryPauseTest, ADelayForAnotherCodeIsNoReasonToRetry) {
  EndedAttempt attempt = Exhausted(absl::Seconds(1));
  attempt.status = absl::InvalidArgumentError("");
  EXPECT_EQ(RetryPause(Policy(), attempt), std::nullopt);
}

TEST(RetryPauseTest, EndsAtMaxAttempts) {
  EXPECT_TRUE(RetryPause(Policy(), Failed(9)).has_value());
  EXPECT_FALSE(RetryPause(Policy(), Failed(10)).has_value());
}

TEST(RetryPauseTest, NeverReachesTheDeadline) {
  EndedAttempt attempt = Failed(1);
  attempt.deadline = attempt.now + absl::Milliseconds(100);
  EXPECT_FALSE(RetryPause(Policy(), attempt).has_value());
  attempt.deadline += absl::Nanoseconds(1);
  EXPECT_TRUE(RetryPause(Policy(), attempt).has_value());
}

TEST(RetryPolicyTest, DefaultIsValid) {
  EXPECT_TRUE(Validate(RetryPolicy()).ok());
}

TEST(RetryPolicyTest, RefusesValuesOutOfRange) {
  RetryPolicy policy = Policy();
  policy.max_attempts = 0;
  EXPECT_FALSE(Validate(policy).ok());
  policy = Policy();
  policy.max_backoff = absl::Milliseconds(99);
  EXPECT_FALSE(Validate(policy).ok());
  policy = Policy();
  policy.multiplier = 0.9;
  EXPECT_FALSE(Validate(policy).ok());
  policy = Policy();
  policy.jitter = 1.1;
  EXPECT_FALSE(Validate(policy).ok());
  policy = Policy();
  policy.max_retry_delay = absl::Seconds(-1);
  EXPECT_FALSE(Validate(policy).ok());
}

}  // namespace
}  // namespace qgemm
