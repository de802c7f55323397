// SPDX-License-Identifier: Apache-2.0
//
// The read roof of a processor.

#ifndef QGEMM_BENCH_READ_ROOF_H_
#define QGEMM_BENCH_READ_ROOF_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "bench/measurer.h"

namespace qgemm {

// Reads a buffer of `bytes` on `threads` threads, several times over.
absl::StatusOr<ReadRoof> MeasureReadRoof(int threads, int64_t bytes);

}  // namespace qgemm

#endif  // QGEMM_BENCH_READ_ROOF_H_
