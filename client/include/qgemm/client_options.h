// SPDX-License-Identifier: Apache-2.0
//
// Connections of a client, its policy for calls that fail, and the server's
// word on when to try again.

#ifndef QGEMM_CLIENT_INCLUDE_QGEMM_CLIENT_OPTIONS_H_
#define QGEMM_CLIENT_INCLUDE_QGEMM_CLIENT_OPTIONS_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace qgemm {

// Two kinds of ends are retried, never past the call's deadline: UNAVAILABLE,
// and RESOURCE_EXHAUSTED for which the server named a time to retry. The pause
// before attempt i + 1 is
//   UNAVAILABLE         min(max_backoff, initial_backoff * multiplier^(i - 1))
//                       * (1 +- jitter)
//   RESOURCE_EXHAUSTED  the server's delay * (1 + jitter), at random up to that
struct RetryPolicy {
  int max_attempts = 5;  // 1 = no retries
  absl::Duration initial_backoff = absl::Milliseconds(50);
  absl::Duration max_backoff = absl::Seconds(2);
  double multiplier = 2.0;  // 1 or more
  double jitter = 0.2;      // share of the pause that is random, 0 to 1
  // False: RESOURCE_EXHAUSTED ends the call, whatever the server names.
  bool honour_retry_info = true;
  // A call without a deadline ends rather than wait longer than this because
  // the server says so.
  absl::Duration max_retry_delay = absl::Seconds(30);
};

// The time after which, by the server's word, the request may succeed that
// ended with `status`, as a call of its own or on a stream; nullopt if the
// server named none.
std::optional<absl::Duration> RetryDelay(const absl::Status& status);

struct ClientOptions {
  // TCP or Unix connections; calls take them in turn. One connection carries
  // any number of calls; more help when large operands saturate one.
  int channels = 1;
  // Threads that finish calls and run callbacks.
  int completion_threads = 1;
  // Largest message, both ways: at least m * k elements of A and m * n of C.
  // The server has its own limit (ServerInfo::max_message_bytes).
  int64_t max_message_bytes = int64_t{64} << 20;
  // Upper bound for Connect's wait until the server accepts.
  absl::Duration connect_timeout = absl::Seconds(10);
  RetryPolicy retry;
};

}  // namespace qgemm

#endif  // QGEMM_CLIENT_INCLUDE_QGEMM_CLIENT_OPTIONS_H_
