// SPDX-License-Identifier: Apache-2.0

#include "server/rpc/operands.h"

#include <utility>

#include "base/status_macros.h"

namespace qgemm {
namespace {

// The token keeps the backend, which the bytes belong to, from going first.
struct Sent {
  Sent(LiveCalls* live_calls, StagingLease sent)
      : token(live_calls), lease(std::move(sent)) {}

  const LiveCalls::Token token;
  StagingLease lease;  // goes before the token does
};

}  // namespace

absl::StatusOr<StagedOperands> AcquireOperands(Backend* backend,
                                               int64_t a_bytes,
                                               int64_t c_bytes) {
  StagedOperands operands;
  ASSIGN_OR_RETURN(operands.a, backend->AcquireStaging(a_bytes));
  ASSIGN_OR_RETURN(operands.c, backend->AcquireStaging(c_bytes));
  return operands;
}

std::shared_ptr<void> HoldWhileSent(LiveCalls* live_calls, StagingLease lease) {
  return std::make_shared<Sent>(live_calls, std::move(lease));
}

}  // namespace qgemm
