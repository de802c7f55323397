// SPDX-License-Identifier: Apache-2.0
//
// The CUDA backend where the build has one: one of two files behind this
// header is linked (BUILD).

#ifndef QGEMM_KERNELS_BACKENDS_OPTIONAL_CUDA_H_
#define QGEMM_KERNELS_BACKENDS_OPTIONAL_CUDA_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/cuda/cuda_options.h"
#include "kernels/matrix/backend.h"

namespace qgemm {

// Whether this build has the CUDA backend.
bool BuildHasCuda();

// Called only if BuildHasCuda(). Errors: INVALID_ARGUMENT (an illegal choice)
// and NOT_FOUND (the tuning file), then FAILED_PRECONDITION if this host has no
// driver or no GPU that the backend runs on.
absl::StatusOr<std::unique_ptr<Backend>> CreateOptionalCuda(
    const CudaOptions& options);

}  // namespace qgemm

#endif  // QGEMM_KERNELS_BACKENDS_OPTIONAL_CUDA_H_
