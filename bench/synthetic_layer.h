// SPDX-License-Identifier: Apache-2.0
//
// Layers of random codes and scales, written straight into a backend's
// builder: nothing is quantized, nothing is zero, and layers of two seeds
// differ.

#ifndef QGEMM_BENCH_SYNTHETIC_LAYER_H_
#define QGEMM_BENCH_SYNTHETIC_LAYER_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/bench_case.h"
#include "kernels/matrix/backend.h"
#include "kernels/matrix/weights.h"

namespace qgemm {

// The header of a case's layer.
WeightsHeader SyntheticHeader(const BenchCase& bench_case);

// `count` elements from -1 to 1, the same each time.
void FillRandomActivations(FloatType type, int64_t count, uint8_t* a);

// Writes the layer of a case, from Begin on. Equal seeds give equal layers.
absl::Status WriteSyntheticLayer(const BenchCase& bench_case, uint64_t seed,
                                 WeightsSink* sink);

// The same, resident on a backend.
absl::StatusOr<std::shared_ptr<const ResidentWeights>> MakeSyntheticLayer(
    const BenchCase& bench_case, uint64_t seed, Backend* backend);

}  // namespace qgemm

#endif  // QGEMM_BENCH_SYNTHETIC_LAYER_H_
