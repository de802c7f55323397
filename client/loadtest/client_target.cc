// SPDX-License-Identifier: Apache-2.0
//
// One blocking Gemm with a deadline.

#include "client/loadtest/client_target.h"

#include <utility>

#include "absl/time/clock.h"
#include "base/status_macros.h"

namespace qgemm {

absl::StatusOr<LoadAnswer> ClientTarget::Call(int64_t input) {
  GemmOptions gemm;
  gemm.weights = options_.weights;
  gemm.m = options_.m;
  gemm.a = options_.inputs[input];
  gemm.a_type = options_.signature.a_type;
  gemm.c_type = options_.signature.c_type;
  gemm.mode = options_.signature.mode;
  gemm.rounding = options_.signature.rounding;
  gemm.deadline = absl::Now() + options_.timeout;
  ASSIGN_OR_RETURN(GemmResult result, client_->Gemm(gemm));
  return LoadAnswer{std::move(result.c), result.timings};
}

}  // namespace qgemm
