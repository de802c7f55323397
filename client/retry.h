// SPDX-License-Identifier: Apache-2.0
//
// Decides if and when a failed call is made again: pure functions of the
// policy.

#ifndef QGEMM_CLIENT_RETRY_H_
#define QGEMM_CLIENT_RETRY_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "qgemm/client_options.h"

namespace qgemm {

// One attempt that ended.
struct EndedAttempt {
  absl::Status status;
  // The server's word on when the same request may succeed.
  std::optional<absl::Duration> retry_delay;
  int number = 1;  // of the attempt, from 1
  absl::Time deadline = absl::InfiniteFuture();
  // Another server is connected that the call has not tried.
  bool has_other_server = false;
  absl::Time now;
  double random = 0.5;  // uniform in [0, 1)
};

// The pause before the next attempt; nullopt if there is to be none: the
// status is not one that is retried (RetryPolicy), the attempts are used up, or
// the pause would reach the deadline.
std::optional<absl::Duration> RetryPause(const RetryPolicy& policy,
                                         const EndedAttempt& attempt);

// OK, or INVALID_ARGUMENT that names the field, its value and what is allowed.
absl::Status Validate(const RetryPolicy& policy);

}  // namespace qgemm

#endif  // QGEMM_CLIENT_RETRY_H_
