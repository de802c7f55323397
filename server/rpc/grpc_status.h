// SPDX-License-Identifier: Apache-2.0
//
// The one place where a status becomes a gRPC status.

#ifndef QGEMM_SERVER_RPC_GRPC_STATUS_H_
#define QGEMM_SERVER_RPC_GRPC_STATUS_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace qgemm {

// The same code and message.
grpc::Status ToGrpcStatus(const absl::Status& status);

// The same, with google.rpc.RetryInfo in the details: the same request may
// succeed after `retry_delay`.
grpc::Status ToRetryableGrpcStatus(const absl::Status& status,
                                   absl::Duration retry_delay);

// For a request that may lack memory or a place in the queue: a few launches
// if the status is RESOURCE_EXHAUSTED, else zero.
absl::Duration RetryDelayFor(const absl::Status& status);

// Retryable after that delay, or as it is if that is zero.
grpc::Status ToRetryableIfExhausted(const absl::Status& status);

// The same code and message; the details are dropped.
absl::Status FromGrpcStatus(const grpc::Status& status);

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_GRPC_STATUS_H_
