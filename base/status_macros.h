// SPDX-License-Identifier: Apache-2.0
//
// RETURN_IF_ERROR and ASSIGN_OR_RETURN, spelled as Abseil's users know them.

#ifndef QGEMM_BASE_STATUS_MACROS_H_
#define QGEMM_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Returns from the enclosing function with the status if it is not OK.
#define RETURN_IF_ERROR(expression)               \
  do {                                            \
    ::absl::Status qgemm_status = (expression);   \
    if (ABSL_PREDICT_FALSE(!qgemm_status.ok())) { \
      return qgemm_status;                        \
    }                                             \
  } while (false)

#define QGEMM_CONCAT_INNER(a, b) a##b
#define QGEMM_CONCAT(a, b) QGEMM_CONCAT_INNER(a, b)

// Evaluates a StatusOr; on error returns its status, else assigns the value:
//   ASSIGN_OR_RETURN(auto lease, backend.AcquireStaging(bytes));
#define ASSIGN_OR_RETURN(lhs, expression)                              \
  QGEMM_ASSIGN_OR_RETURN(QGEMM_CONCAT(qgemm_statusor_, __LINE__), lhs, \
                         expression)
#define QGEMM_ASSIGN_OR_RETURN(statusor, lhs, expression) \
  auto statusor = (expression);                           \
  if (ABSL_PREDICT_FALSE(!statusor.ok())) {               \
    return std::move(statusor).status();                  \
  }                                                       \
  lhs = *std::move(statusor)

#endif  // QGEMM_BASE_STATUS_MACROS_H_
