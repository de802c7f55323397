// SPDX-License-Identifier: Apache-2.0
//
// The measurer of the CUDA backend where the build has one:
// cuda/gpu_measurer.cc or gpu_measurer_absent.cc is linked (BUILD).

#ifndef QGEMM_BENCH_GPU_MEASURER_H_
#define QGEMM_BENCH_GPU_MEASURER_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "bench/measurer.h"

namespace qgemm {

struct GpuMeasurerOptions {
  int64_t rotate_bytes = 0;  // of all copies of a layer together, at least
  // True: cuBLAS is measured beside each case.
  bool with_baselines = true;
};

// On GPU 0. FAILED_PRECONDITION if this build has no CUDA backend, or this
// host no GPU, no driver or no cuBLASLt.
absl::StatusOr<std::unique_ptr<Measurer>> CreateGpuMeasurer(
    const GpuMeasurerOptions& options);

}  // namespace qgemm

#endif  // QGEMM_BENCH_GPU_MEASURER_H_
