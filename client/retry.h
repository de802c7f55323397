// SPDX-License-Identifier: Apache-2.0
//
// Whether and when a failed call is made again: a pure function of the policy.

#ifndef QGEMM_CLIENT_RETRY_H_
#define QGEMM_CLIENT_RETRY_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client_options.h"

namespace qgemm {

// One attempt that ended.
struct EndedAttempt {
  absl::Status status;
  int number = 1;  // of the attempt, from 1
  absl::Time now;
  absl::Time deadline = absl::InfiniteFuture();
  double random = 0.5;  // uniform in [0, 1)
};

// The pause before the next attempt; nothing if there is to be none: the
// status is not UNAVAILABLE, the attempts are used up, or the pause would
// reach the deadline.
std::optional<absl::Duration> RetryPause(const RetryPolicy& policy,
                                         const EndedAttempt& attempt);

// OK, or INVALID_ARGUMENT with the field and what is legal.
absl::Status Validate(const RetryPolicy& policy);

}  // namespace qgemm

#endif  // QGEMM_CLIENT_RETRY_H_
