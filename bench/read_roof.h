// SPDX-License-Identifier: Apache-2.0
//
// What the memory gives: the bound that a kernel at M = 1 runs into.

#ifndef QGEMM_BENCH_READ_ROOF_H_
#define QGEMM_BENCH_READ_ROOF_H_

#include <cstdint>

#include "absl/status/statusor.h"

namespace qgemm {

struct ReadRoof {
  double gbps = 0;         // the best pass
  double median_gbps = 0;  // how quiet the machine is
};

// Reads a buffer of `bytes` on `threads` threads, several times over.
absl::StatusOr<ReadRoof> MeasureReadRoof(int threads, int64_t bytes);

}  // namespace qgemm

#endif  // QGEMM_BENCH_READ_ROOF_H_
