// SPDX-License-Identifier: Apache-2.0
//
// What is checked of a multiplication before it is sent, however it is sent.

#ifndef QGEMM_CLIENT_GEMM_CHECK_H_
#define QGEMM_CLIENT_GEMM_CHECK_H_

#include "absl/status/status.h"
#include "client/gemm.h"

namespace qgemm {

// INVALID_ARGUMENT unless A has m rows, one or more, of whole elements.
absl::Status CheckOperand(const GemmOptions& options);

}  // namespace qgemm

#endif  // QGEMM_CLIENT_GEMM_CHECK_H_
