// SPDX-License-Identifier: Apache-2.0
//
// Reads the file that carries a tuning from the bench to the server.

#ifndef QGEMM_KERNELS_CUDA_TUNING_TUNING_FILE_H_
#define QGEMM_KERNELS_CUDA_TUNING_TUNING_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "kernels/cuda/tuning/tuning.h"

namespace qgemm::cuda {

// Errors name the path: NOT_FOUND (no such file), INVALID_ARGUMENT (a file
// that cannot be read, or whose text is no tuning).
absl::StatusOr<Tuning> ReadTuningFile(const std::string& path);

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_TUNING_TUNING_FILE_H_
