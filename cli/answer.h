// SPDX-License-Identifier: Apache-2.0
//
// The answer of `qgemm gemm`: its check against fp64, which decodes the same
// upload here and multiplies with the oracle, and its text. Decoded uploads are
// `qgemm program run`'s as well.

#ifndef QGEMM_CLI_ANSWER_H_
#define QGEMM_CLI_ANSWER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "kernels/matrix/canonical_weights.h"
#include "kernels/matrix/fp64_oracle.h"
#include "kernels/matrix/types.h"
#include "qgemm/gemm.h"
#include "qgemm/weights.h"

namespace qgemm::cli {

// fp64 multiplications that take a few seconds, which a check makes at most.
inline constexpr int64_t kMaxProducts = int64_t{1} << 30;

// The weights of `stream`, whose id must be `weights_id`.
// Errors: FAILED_PRECONDITION (other weights), the stream's.
absl::StatusOr<CanonicalWeights> DecodeWeights(const WeightsStream& stream,
                                               const std::string& weights_id);

// An answer and the request that it answers.
struct AnswerToCheck {
  MatmulSignature signature;
  int64_t m = 0;
  absl::Span<const uint8_t> a;  // [m, k] of the signature's a_type
  absl::Span<const uint8_t> c;  // [m, n] of its c_type
};

// Compares with fp64 over the weights of `stream`, whose id must be
// `weights_id`. Evenly spaced columns of a large product are compared.
// Errors: FAILED_PRECONDITION (other weights), the stream's.
absl::StatusOr<OracleReport> VerifyAnswer(const WeightsStream& stream,
                                          const std::string& weights_id,
                                          const AnswerToCheck& answer);

// References are borrowed for the call.
struct GemmReport {
  const WeightsInfo& weights;
  const MatmulSignature& signature;
  const GemmResult& result;
  absl::Duration round_trip;
  const std::optional<OracleReport>& verified;
  const std::string& out_path;  // empty: not written
};

enum class GemmReportStyle { kText, kJson };

std::string FormatGemmReport(const GemmReport& report, GemmReportStyle style);

}  // namespace qgemm::cli

#endif  // QGEMM_CLI_ANSWER_H_
