// SPDX-License-Identifier: Apache-2.0
//
// A call's deadline as the server's own type.

#ifndef QGEMM_SERVER_RPC_CALL_DEADLINE_H_
#define QGEMM_SERVER_RPC_CALL_DEADLINE_H_

#include <grpcpp/server_context.h>

#include <chrono>

#include "absl/time/time.h"

namespace qgemm {

// InfiniteFuture for a call without a deadline.
inline absl::Time DeadlineOf(const grpc::ServerContext& context) {
  const std::chrono::system_clock::time_point deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) {
    return absl::InfiniteFuture();
  }
  return absl::FromChrono(deadline);
}

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_CALL_DEADLINE_H_
