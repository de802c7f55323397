// SPDX-License-Identifier: Apache-2.0
//
// gRPC's status and time as Abseil's.

#ifndef QGEMM_CLIENT_GRPC_STATUS_H_
#define QGEMM_CLIENT_GRPC_STATUS_H_

#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace qgemm {

// The same code and message; the codes of both are numbered alike. A server
// never cancels a call of its own accord: CANCELLED on a call that the caller
// did not cancel is gRPC's word for a stream that a server reset while it shut
// down, before anybody accepted the call. That is UNAVAILABLE, and retried.
inline absl::Status ToAbslStatus(const grpc::Status& status) {
  if (status.error_code() == grpc::StatusCode::CANCELLED) {
    return absl::UnavailableError(
        "the server reset the call while it shut down");
  }
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      status.error_message());
}

// What an OK without a message means. gRPC drops a message that has come, but
// not the status behind it, if the call is cancelled or its deadline passes at
// that moment (grpc/grpc issues 18234 and 23559).
inline absl::Status LostAnswer(bool cancelled, bool deadline_passed) {
  if (cancelled) {
    return absl::CancelledError("the call was cancelled as its answer came");
  }
  if (deadline_passed) {
    return absl::DeadlineExceededError(
        "the call's deadline passed as its answer came");
  }
  return absl::InternalError("the server's answer has no message");
}

inline void SetContextDeadline(absl::Time deadline,
                               grpc::ClientContext* context) {
  if (deadline == absl::InfiniteFuture()) return;
  context->set_deadline(absl::ToChronoTime(deadline));
}

}  // namespace qgemm

#endif  // QGEMM_CLIENT_GRPC_STATUS_H_
