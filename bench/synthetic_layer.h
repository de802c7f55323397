// SPDX-License-Identifier: Apache-2.0
//
// Layers of random codes and scales, written straight into a backend's
// builder: nothing is quantized, nothing is zero, and no copy is equal to
// another.

#ifndef QGEMM_BENCH_SYNTHETIC_LAYER_H_
#define QGEMM_BENCH_SYNTHETIC_LAYER_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "bench/bench_case.h"
#include "kernels/matrix/backend.h"

namespace qgemm {

// The layer of a case. Equal seeds give equal layers.
absl::StatusOr<std::shared_ptr<const ResidentWeights>> MakeSyntheticLayer(
    const BenchCase& bench_case, uint64_t seed, Backend* backend);

}  // namespace qgemm

#endif  // QGEMM_BENCH_SYNTHETIC_LAYER_H_
