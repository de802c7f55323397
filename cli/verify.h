// SPDX-License-Identifier: Apache-2.0
//
// Checks a server's answer against fp64: decodes the same upload here and
// multiplies with the oracle.

#ifndef QGEMM_CLIENT_CLI_VERIFY_H_
#define QGEMM_CLIENT_CLI_VERIFY_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/matrix/fp64_oracle.h"
#include "kernels/matrix/types.h"
#include "qgemm/gemm.h"
#include "qgemm/weights.h"

namespace qgemm {

// An answer and what was asked.
struct AnswerToCheck {
  MatmulSignature signature;
  int64_t m = 0;
  absl::Span<const uint8_t> a;  // [m, k] of the signature's a_type
  absl::Span<const uint8_t> c;  // [m, n] of its c_type
};

// Compares with fp64 over the weights of `stream`, whose id must be
// `weights_id`. Of a large product, evenly spaced columns are compared.
// Errors: FAILED_PRECONDITION (other weights), the stream's.
absl::StatusOr<OracleReport> VerifyAnswer(const WeightsStream& stream,
                                          const std::string& weights_id,
                                          const AnswerToCheck& answer);

}  // namespace qgemm

#endif  // QGEMM_CLIENT_CLI_VERIFY_H_
