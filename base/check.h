// SPDX-License-Identifier: Apache-2.0
//
// CHECK and its comparisons: abort with a message on a programmer's error.
// Never for a client's mistake; those get a status.

#ifndef QGEMM_BASE_CHECK_H_
#define QGEMM_BASE_CHECK_H_

#include "absl/base/optimization.h"
#include "base/log.h"

#define CHECK(condition)       \
  ABSL_PREDICT_TRUE(condition) \
  ? (void)0                    \
  : ::qgemm::LogVoidify() & LOG(FATAL) << "CHECK failed: " #condition " "

#define QGEMM_CHECK_OP(a, op, b) \
  CHECK((a)op(b)) << "(" << (a) << " vs " << (b) << ") "
#define CHECK_EQ(a, b) QGEMM_CHECK_OP(a, ==, b)
#define CHECK_NE(a, b) QGEMM_CHECK_OP(a, !=, b)
#define CHECK_LE(a, b) QGEMM_CHECK_OP(a, <=, b)
#define CHECK_LT(a, b) QGEMM_CHECK_OP(a, <, b)
#define CHECK_GE(a, b) QGEMM_CHECK_OP(a, >=, b)
#define CHECK_GT(a, b) QGEMM_CHECK_OP(a, >, b)

// For an absl::Status that only a programmer's error makes not OK.
#define CHECK_OK(expression)                           \
  do {                                                 \
    const ::absl::Status qgemm_checked = (expression); \
    CHECK(qgemm_checked.ok()) << qgemm_checked;        \
  } while (false)

#endif  // QGEMM_BASE_CHECK_H_
