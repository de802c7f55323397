// SPDX-License-Identifier: Apache-2.0
//
// Backoff grows by the attempt; the server's delay is taken as it is.

#include "client/retry.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "rpc/grpc_status.h"

namespace qgemm {

namespace {

absl::Duration Backoff(const RetryPolicy& policy, const EndedAttempt& attempt) {
  const double growth = std::pow(policy.multiplier, attempt.number - 1);
  const absl::Duration base =
      std::min(policy.max_backoff, policy.initial_backoff * growth);
  return base * (1.0 + policy.jitter * (2.0 * attempt.random - 1.0));
}

}  // namespace

std::optional<absl::Duration> RetryPause(const RetryPolicy& policy,
                                         const EndedAttempt& attempt) {
  if (attempt.number >= policy.max_attempts) return std::nullopt;
  absl::Duration pause;
  if (absl::IsUnavailable(attempt.status)) {
    if (!attempt.has_other_server) pause = Backoff(policy, attempt);
  } else if (absl::IsResourceExhausted(attempt.status) &&
             attempt.retry_delay.has_value() && policy.honour_retry_info) {
    // Never earlier than the server said, and not all clients at once.
    pause = *attempt.retry_delay * (1.0 + policy.jitter * attempt.random);
    if (attempt.deadline == absl::InfiniteFuture() &&
        *attempt.retry_delay > policy.max_retry_delay) {
      return std::nullopt;
    }
  } else {
    return std::nullopt;
  }
  if (attempt.now + pause >= attempt.deadline) return std::nullopt;
  return pause;
}

std::optional<absl::Duration> RetryDelay(const absl::Status& status) {
  return RetryDelayOf(status);
}

absl::Status Validate(const RetryPolicy& policy) {
  if (policy.max_attempts < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "retry.max_attempts is ", policy.max_attempts, "; it must be >= 1"));
  }
  if (policy.initial_backoff < absl::ZeroDuration() ||
      policy.max_backoff < policy.initial_backoff) {
    return absl::InvalidArgumentError(absl::StrCat(
        "retry.initial_backoff is ",
        absl::FormatDuration(policy.initial_backoff),
        " and retry.max_backoff is ", absl::FormatDuration(policy.max_backoff),
        "; they must be 0 <= initial_backoff <= max_backoff"));
  }
  if (!(policy.multiplier >= 1.0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "retry.multiplier is ", policy.multiplier, "; it must be >= 1"));
  }
  if (!(policy.jitter >= 0.0 && policy.jitter <= 1.0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("retry.jitter is ", policy.jitter, "; it must be 0 to 1"));
  }
  if (policy.max_retry_delay < absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "retry.max_retry_delay is ",
        absl::FormatDuration(policy.max_retry_delay), "; it must be >= 0"));
  }
  return absl::OkStatus();
}

}  // namespace qgemm
