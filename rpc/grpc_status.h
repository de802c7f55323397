// SPDX-License-Identifier: Apache-2.0
//
// Statuses and deadlines between Abseil and gRPC: the one conversion each way.

#ifndef QGEMM_RPC_GRPC_STATUS_H_
#define QGEMM_RPC_GRPC_STATUS_H_

#include <grpc/support/time.h>
#include <grpcpp/client_context.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace qgemm {

// The status with google.rpc.RetryInfo as its payload: the same request may
// succeed after `delay`, which is above zero.
absl::Status WithRetryDelay(absl::Status status, absl::Duration delay);

// The delay of that payload; nullopt without one.
std::optional<absl::Duration> RetryDelayOf(const absl::Status& status);

// The same code and message. With a `retry_delay` above zero, or that of
// WithRetryDelay, the details hold google.rpc.RetryInfo.
grpc::Status ToGrpcStatus(const absl::Status& status,
                          absl::Duration retry_delay = absl::ZeroDuration());

// The delay of google.rpc.RetryInfo in the details; nullopt if they have none
// that parses, or a negative one.
std::optional<absl::Duration> RetryDelayOf(const grpc::Status& status);

// The same code, message and retry delay, of a call that its caller did not
// cancel: gRPC's CANCELLED means then that the server reset the call while it
// shut down, before anybody accepted it. That becomes UNAVAILABLE, which may be
// retried.
absl::Status ToAbslStatus(const grpc::Status& status);

// The status of a call that ended OK without a message. gRPC drops a message
// that has come, but not the status behind it, if the call is cancelled or its
// deadline passes at that moment (grpc/grpc issues 18234 and 23559).
absl::Status LostAnswer(bool cancelled, bool deadline_passed);

// InfiniteFuture sets none.
void SetContextDeadline(absl::Time deadline, grpc::ClientContext* context);

// The deadline of a call by the clock that says `now`; InfiniteFuture without
// one. Any time that a client may ask for is kept, even one beyond the year
// 2262, which the system's clock cannot count to.
absl::Time DeadlineOf(const grpc::ServerContext& context, absl::Time now);
absl::Time DeadlineOf(gpr_timespec raw_deadline, absl::Time now);

}  // namespace qgemm

#endif  // QGEMM_RPC_GRPC_STATUS_H_
