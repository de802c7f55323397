// SPDX-License-Identifier: Apache-2.0
//
// The explicit list of backends in this build, and how to make one by name.

#ifndef QGEMM_KERNELS_BACKENDS_BACKENDS_H_
#define QGEMM_KERNELS_BACKENDS_BACKENDS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/cuda/cuda_options.h"
#include "kernels/matrix/backend.h"

namespace qgemm {

struct BackendOptions {
  // One of BackendNames(), or "auto": the fastest that runs here.
  std::string name = "auto";
  // Of a backend that computes on the processor; 0 = one a core.
  int threads = 0;
  CudaOptions cuda;
};

// What this build has, in the order in which "auto" prefers them.
std::vector<std::string> BackendNames();

// Errors: INVALID_ARGUMENT (no such backend, illegal options, or options that
// the backend does not take; they are named as the programs' flags are),
// NOT_FOUND (no such file), FAILED_PRECONDITION (a backend that this build or
// this host lacks).
absl::StatusOr<std::unique_ptr<Backend>> CreateBackend(
    const BackendOptions& options);

}  // namespace qgemm

#endif  // QGEMM_KERNELS_BACKENDS_BACKENDS_H_
