// SPDX-License-Identifier: Apache-2.0
//
// What `qgemm gemm` says of an answer.

#ifndef QGEMM_CLIENT_CLI_GEMM_REPORT_H_
#define QGEMM_CLIENT_CLI_GEMM_REPORT_H_

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "kernels/matrix/fp64_oracle.h"
#include "kernels/matrix/types.h"
#include "qgemm/gemm.h"
#include "qgemm/weights.h"

namespace qgemm {

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

}  // namespace qgemm

#endif  // QGEMM_CLIENT_CLI_GEMM_REPORT_H_
