// SPDX-License-Identifier: Apache-2.0
//
// How a client connects and what it does when a server does not answer.

#ifndef QGEMM_CLIENT_CLIENT_OPTIONS_H_
#define QGEMM_CLIENT_CLIENT_OPTIONS_H_

#include <cstdint>

#include "absl/time/time.h"

namespace qgemm {

// Calls that end with UNAVAILABLE, and only those, are made again, never past
// their deadline. The pause before attempt i + 1 is
//   min(max_backoff, initial_backoff * multiplier^(i - 1)) * (1 +- jitter).
struct RetryPolicy {
  int max_attempts = 5;  // 1 = no retries
  absl::Duration initial_backoff = absl::Milliseconds(50);
  absl::Duration max_backoff = absl::Seconds(2);
  double multiplier = 2.0;  // 1 or more
  double jitter = 0.2;      // share of the pause that is random, 0 to 1
};

struct ClientOptions {
  // TCP or Unix connections; calls take them in turn. One connection carries
  // any number of calls; more help when large operands saturate one.
  int channels = 1;
  // Threads that finish calls and run callbacks.
  int completion_threads = 1;
  // Of one message, both ways: at least m * k elements of A and m * n of C.
  // The server has its own limit (ServerDescription::max_message_bytes).
  int64_t max_message_bytes = int64_t{64} << 20;
  // How long Connect waits for the server to accept.
  absl::Duration connect_timeout = absl::Seconds(10);
  RetryPolicy retry;
};

}  // namespace qgemm

#endif  // QGEMM_CLIENT_CLIENT_OPTIONS_H_
