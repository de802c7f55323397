// SPDX-License-Identifier: Apache-2.0

#include "client/gemm_check.h"

#include "absl/strings/str_cat.h"
#include "base/checked_math.h"

namespace qgemm {

absl::Status CheckOperand(const GemmOptions& options) {
  if (options.m < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("m is ", options.m, "; it must be 1 or more"));
  }
  const auto column_bytes = CheckedMul(options.m, SizeOf(options.a_type));
  const int64_t a_bytes = options.a.size();
  if (!column_bytes.has_value() || a_bytes == 0 ||
      a_bytes % *column_bytes != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a has ", a_bytes, " bytes, which is no whole number of columns for ",
        options.m, " rows of ", Name(options.a_type)));
  }
  return absl::OkStatus();
}

}  // namespace qgemm
