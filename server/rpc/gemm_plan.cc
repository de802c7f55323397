// SPDX-License-Identifier: Apache-2.0
//
// The checks, each in 64 bits before any size is used.

#include "server/rpc/gemm_plan.h"

#include <limits>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/checked_math.h"
#include "base/status_macros.h"

namespace qgemm {
namespace {

// What an answer holds besides c: seven timings of at most 11 bytes, and the
// tags and lengths of both fields (at most 13 bytes); rounded up.
constexpr int64_t kAnswerOverheadBytes = 128;

// rows * columns elements in bytes; the largest int64 if it does not fit.
int64_t OperandBytes(int64_t rows, int64_t columns, FloatType type) {
  const std::optional<int64_t> elements = CheckedMul(rows, columns);
  if (!elements) return std::numeric_limits<int64_t>::max();
  return CheckedMul(*elements, SizeOf(type))
      .value_or(std::numeric_limits<int64_t>::max());
}

absl::StatusOr<int64_t> CheckRows(uint64_t m, int64_t max_rows) {
  if (m == 0) {
    return absl::InvalidArgumentError("m = 0; it must be at least 1");
  }
  if (m > static_cast<uint64_t>(max_rows)) {
    return absl::InvalidArgumentError(
        absl::StrCat("m = ", m, " is beyond the limit of ", max_rows,
                     " rows a request; split the rows over several requests"));
  }
  return static_cast<int64_t>(m);
}

}  // namespace

int64_t MaxResultBytes(int64_t max_message_bytes) {
  return max_message_bytes - kAnswerOverheadBytes;
}

ResultLimit MessageResultLimit(int64_t max_message_bytes) {
  return {MaxResultBytes(max_message_bytes), "--max_message_bytes",
          max_message_bytes};
}

ResultLimit StreamResultLimit(int64_t max_stream_operand_bytes) {
  return {max_stream_operand_bytes, "--max_stream_operand_bytes",
          max_stream_operand_bytes};
}

absl::StatusOr<GemmPlan> PlanGemm(const GemmShape& shape,
                                  const GemmLimits& limits) {
  GemmPlan plan;
  ASSIGN_OR_RETURN(plan.m, CheckRows(shape.m, limits.max_batch_rows));
  const MatmulSignature& signature = shape.signature;
  plan.a_bytes = OperandBytes(plan.m, shape.k, signature.a_type);
  if (plan.a_bytes != shape.a_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a has ", shape.a_bytes, " bytes; m = ", plan.m, " rows of k = ",
        shape.k, " ", Name(signature.a_type), " have ", plan.a_bytes));
  }
  plan.c_bytes = OperandBytes(plan.m, shape.n, signature.c_type);
  const ResultLimit& limit = limits.result;
  if (plan.c_bytes > limit.c_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the answer would have ", plan.c_bytes, " bytes (m = ", plan.m,
        ", n = ", shape.n, ", ", Name(signature.c_type), ") and the limit is ",
        limit.c_bytes, " (", limit.flag, " = ", limit.flag_bytes,
        "); split the rows over several requests"));
  }
  return plan;
}

}  // namespace qgemm
