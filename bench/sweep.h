// SPDX-License-Identifier: Apache-2.0
//
// Cases that the kernel bench measures unless options say otherwise.

#ifndef QGEMM_BENCH_SWEEP_H_
#define QGEMM_BENCH_SWEEP_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/bench_case.h"

namespace qgemm {

enum class SweepSize : uint8_t { kQuick, kDefault, kFull };

// Kind of device: a GPU takes far more cases in the same time.
enum class SweepTarget : uint8_t { kHost, kGpu };

// The cases of a sweep, none twice. An empty string of `text` stands for what
// the sweep has there. INVALID_ARGUMENT names the flag that is wrong.
absl::StatusOr<std::vector<BenchCase>> CasesOf(const SweepText& text,
                                               SweepSize size,
                                               SweepTarget target);

}  // namespace qgemm

#endif  // QGEMM_BENCH_SWEEP_H_
