// SPDX-License-Identifier: Apache-2.0
//
// Checks of single flags, and the words that they fail with: the flag, its
// value, what is legal.

#ifndef QGEMM_LOADTEST_FLAG_CHECKS_H_
#define QGEMM_LOADTEST_FLAG_CHECKS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "loadtest/workload/synthetic_shape.h"

namespace qgemm {

// INVALID_ARGUMENT "--flag=value: must be legal".
absl::Status BadFlag(absl::string_view flag, absl::string_view value,
                     absl::string_view legal);

// low <= value <= high.
absl::Status CheckRange(absl::string_view flag, int64_t value, int64_t low,
                        int64_t high);

// 0 <= value <= high; not NaN either.
absl::Status CheckNumber(absl::string_view flag, double value, double high);

// From `low` to a year.
absl::Status CheckTime(absl::string_view flag, absl::Duration value,
                       absl::Duration low);

// "KxN", each 1 to 2^20.
absl::StatusOr<SyntheticShape> ParseShape(absl::string_view flag,
                                          absl::string_view text);

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_FLAG_CHECKS_H_
