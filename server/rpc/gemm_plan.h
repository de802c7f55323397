// SPDX-License-Identifier: Apache-2.0
//
// Whether the sizes of a Gemm are right, and what they come to. Values in,
// value out.

#ifndef QGEMM_SERVER_RPC_GEMM_PLAN_H_
#define QGEMM_SERVER_RPC_GEMM_PLAN_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
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

// What bounds a result.
struct ResultLimit {
  int64_t c_bytes = 0;     // the most
  absl::string_view flag;  // that sets it, and to what
  int64_t flag_bytes = 0;
};

struct GemmLimits {
  ResultLimit result;
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

// Of an answer that is one message.
ResultLimit MessageResultLimit(int64_t max_message_bytes);
// Of an answer in fragments.
ResultLimit StreamResultLimit(int64_t max_stream_operand_bytes);

// Errors: INVALID_ARGUMENT (m is zero or beyond the limit, the bytes of a are
// not m * k elements); RESOURCE_EXHAUSTED (the result is beyond its limit).
absl::StatusOr<GemmPlan> PlanGemm(const GemmShape& shape,
                                  const GemmLimits& limits);

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_GEMM_PLAN_H_
