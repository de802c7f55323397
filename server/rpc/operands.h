// SPDX-License-Identifier: Apache-2.0
//
// Memory of the backend that requests and answers lie in.

#ifndef QGEMM_SERVER_RPC_OPERANDS_H_
#define QGEMM_SERVER_RPC_OPERANDS_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/matrix/backend.h"
#include "server/rpc/call_registry.h"

namespace qgemm {

// A request's activations and its result.
struct StagedOperands {
  StagingLease a;
  StagingLease c;
};

// Errors: RESOURCE_EXHAUSTED.
absl::StatusOr<StagedOperands> AcquireOperands(Backend* backend,
                                               int64_t a_bytes,
                                               int64_t c_bytes);

// Owns `lease`, whose bytes are being sent. The server's end waits until the
// owner goes, and the lease with it: gRPC may hold an answer's bytes for
// longer than the call.
std::shared_ptr<void> HoldWhileSent(LiveCalls* live_calls, StagingLease lease);

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_OPERANDS_H_
