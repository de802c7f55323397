// SPDX-License-Identifier: Apache-2.0
//
// Whether the sizes of a Gemm are right, and what they come to. Values in,
// value out.

#ifndef QGEMM_SERVER_RPC_GEMM_PLAN_H_
#define QGEMM_SERVER_RPC_GEMM_PLAN_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "kernels/matrix/types.h"

namespace qgemm {

// What a request says, and the weights that it found.
struct GemmShape {
  uint64_t m = 0;  // as the wire says it
  int64_t n = 0;   // of the weights
  int64_t k = 0;
  int64_t a_bytes = 0;  // received
  MatmulSignature signature;
};

struct GemmLimits {
  int64_t max_message_bytes = 0;  // of an answer
  int64_t max_batch_rows = 0;
};

// Sizes that fit: m rows, operands in bytes.
struct GemmPlan {
  int64_t m = 0;
  int64_t a_bytes = 0;
  int64_t c_bytes = 0;
};

// The most bytes of a result that fit in an answer of `max_message_bytes`.
int64_t MaxResultBytes(int64_t max_message_bytes);

// Errors: INVALID_ARGUMENT (m is zero or beyond the limit, the bytes of a are
// not m * k elements); RESOURCE_EXHAUSTED (the answer would not fit in a
// message).
absl::StatusOr<GemmPlan> PlanGemm(const GemmShape& shape,
                                  const GemmLimits& limits);

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_GEMM_PLAN_H_
