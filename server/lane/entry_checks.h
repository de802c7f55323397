// SPDX-License-Identifier: Apache-2.0
//
// Checks of a lane's request that need nothing but the request and the size of
// the operands. Those that need weights are the RPCs' own
// (server/rpc/gemm_request_builder.h).

#ifndef QGEMM_SERVER_LANE_ENTRY_CHECKS_H_
#define QGEMM_SERVER_LANE_ENTRY_CHECKS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "lane/messages.h"
#include "lane/segment.h"

namespace qgemm {

// OK if A and C lie within their memories, of `a_memory_bytes` and
// `c_memory_bytes`, aligned and apart, and the fields that `kind` does not have
// are 0; else INVALID_ARGUMENT with the field, its value and the limit. `entry`
// is private memory. Pure.
absl::Status CheckEntry(const lane::RequestEntry& entry, lane::HandleKind kind,
                        int64_t a_memory_bytes, int64_t c_memory_bytes);

}  // namespace qgemm

#endif  // QGEMM_SERVER_LANE_ENTRY_CHECKS_H_
