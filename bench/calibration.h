// SPDX-License-Identifier: Apache-2.0
//
// Finds the number of rows up to which a GPU's decode kernel keeps up with
// dequantization and cuBLASLt.

#ifndef QGEMM_BENCH_CALIBRATION_H_
#define QGEMM_BENCH_CALIBRATION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "bench/bench_case.h"
#include "bench/measurer.h"
#include "kernels/cuda/plan/tuning.h"

namespace qgemm {

// Both paths on one layer and M.
struct PathTimes {
  int bits = 0;  // of a code
  BenchShape shape;
  int64_t m = 0;
  absl::Duration decode;
  absl::Duration cublas;
};

struct Calibration {
  std::vector<PathTimes> times;
  cuda::Tuning tuning;
};

// The largest measured M such that there and at every smaller one the decode
// kernel takes at most as long as cuBLASLt, in the geometric mean over the
// shapes; kMinDecodeRowsLimit if that holds nowhere. Times are of one code
// width, in any order.
int64_t ChooseMaxDecodeRows(absl::Span<const PathTimes> times);

// Measures every code width on a large and a middling layer.
absl::StatusOr<Calibration> Calibrate(Measurer* measurer);

// A table of the times, and what was chosen.
std::string FormatCalibration(const Calibration& calibration);

}  // namespace qgemm

#endif  // QGEMM_BENCH_CALIBRATION_H_
