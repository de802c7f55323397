// SPDX-License-Identifier: Apache-2.0
//
// The CUDA backend where the build has one: one of two files behind this
// header is linked (BUILD).

#ifndef QGEMM_KERNELS_BACKENDS_OPTIONAL_CUDA_H_
#define QGEMM_KERNELS_BACKENDS_OPTIONAL_CUDA_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/matrix/backend.h"

namespace qgemm {

// Whether this build has the CUDA backend.
bool BuildHasCuda();

// FAILED_PRECONDITION if this host has no driver or no GPU that the backend
// runs on. Called only if BuildHasCuda().
absl::StatusOr<std::unique_ptr<Backend>> CreateOptionalCuda();

}  // namespace qgemm

#endif  // QGEMM_KERNELS_BACKENDS_OPTIONAL_CUDA_H_
