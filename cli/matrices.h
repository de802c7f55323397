// SPDX-License-Identifier: Apache-2.0
//
// Activations and results of `qgemm gemm` and `qgemm program run`: elements as
// they travel, from and to .npy files or made at random.

#ifndef QGEMM_CLI_MATRICES_H_
#define QGEMM_CLI_MATRICES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/matrix/types.h"

namespace qgemm::cli {

// [m, width] elements, row-major.
struct RowMatrix {
  int64_t m = 0;
  std::vector<uint8_t> bytes;
};

// The matrix of a file, which has `width` columns, converted to `type`.
absl::StatusOr<RowMatrix> ReadMatrix(const std::string& path, int64_t width,
                                     FloatType type);

// Bell-shaped values of deviation 1, the same on every machine. Errors:
// INVALID_ARGUMENT for a width below 1, or rows that are too many to make.
absl::StatusOr<RowMatrix> MakeMatrix(int64_t m, int64_t width, FloatType type,
                                     int64_t seed);

// Writes [m, width] elements as .npy; bfloat16, which that lacks, as fp32,
// which is exact.
absl::Status WriteMatrix(const std::string& path, FloatType type, int64_t m,
                         absl::Span<const uint8_t> bytes);
// The same of ids.
absl::Status WriteIds(const std::string& path, int64_t m,
                      absl::Span<const uint8_t> bytes);

}  // namespace qgemm::cli

#endif  // QGEMM_CLI_MATRICES_H_
