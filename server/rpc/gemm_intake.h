// SPDX-License-Identifier: Apache-2.0
//
// A Gemm from its message to a request of the scheduler, however it came: what
// the unary RPC and the stream share.

#ifndef QGEMM_SERVER_RPC_GEMM_INTAKE_H_
#define QGEMM_SERVER_RPC_GEMM_INTAKE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "qgemm/v1/qgemm.pb.h"
#include "server/rpc/gemm_plan.h"
#include "server/rpc/rpc_environment.h"
#include "server/scheduling/gemm_request.h"

namespace qgemm {

// A request that may be computed. It lacks the operands' memory, its caller's
// times and `done`.
struct GemmIntake {
  std::unique_ptr<GemmRequest> request;
  GemmPlan plan;
};

// Looks the weights up, which keeps them, and checks all that the message
// says. `a_bytes` is what its A has, which need not have come yet; `peer` is
// who sent it, where the message does not say.
// Errors: INVALID_ARGUMENT, NOT_FOUND (the weights), UNIMPLEMENTED (the
// backend has no kernel for it), RESOURCE_EXHAUSTED (the result is beyond
// `result_limit`).
absl::StatusOr<GemmIntake> TakeGemm(const RpcEnvironment& environment,
                                    const v1::GemmRequest& message,
                                    int64_t a_bytes,
                                    const ResultLimit& result_limit,
                                    const std::string& peer);

// Whether the scheduler would take it now, or what it would refuse it with.
absl::Status CheckRoom(const RpcEnvironment& environment,
                       const GemmIntake& intake);

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_GEMM_INTAKE_H_
