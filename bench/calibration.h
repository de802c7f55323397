// SPDX-License-Identifier: Apache-2.0
//
// Finds up to how many rows the small family of a GPU's kernels, in launches
// of 64, keeps up with the large one.

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
#include "kernels/cuda/tuning/tuning.h"

namespace qgemm {

// Both families on one layer and M.
struct FamilyTimes {
  int bits = 0;  // of a code
  BenchShape shape;
  int64_t m = 0;
  absl::Duration small;
  absl::Duration large;
};

struct Calibration {
  std::vector<FamilyTimes> times;
  cuda::Tuning tuning;
};

// The largest measured M such that there and at every smaller one the small
// family takes at most as long as the large, in the geometric mean over the
// shapes; kMinSmallRowsLimit if that holds nowhere. Times are of one code
// width, in any order.
int64_t ChooseMaxSmallRows(absl::Span<const FamilyTimes> times);

// Measures every code width on a large and a middling layer.
absl::StatusOr<Calibration> Calibrate(Measurer* measurer);

// A table of the times, and what was chosen.
std::string FormatCalibration(const Calibration& calibration);

}  // namespace qgemm

#endif  // QGEMM_BENCH_CALIBRATION_H_
