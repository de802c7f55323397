// SPDX-License-Identifier: Apache-2.0
//
// The slow and obvious backend: fp64 over canonical weights, one batch at a
// time on a thread of its own. For tests, and for judging other backends.

#ifndef QGEMM_KERNELS_REFERENCE_REFERENCE_BACKEND_H_
#define QGEMM_KERNELS_REFERENCE_REFERENCE_BACKEND_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/matrix/backend.h"

namespace qgemm::reference {

struct ReferenceOptions {
  // A chunk takes seconds at most, whatever the layer.
  BackendLimits limits = {int64_t{1} << 20, int64_t{1} << 20, 8192, 64, 16, 512,
                          int64_t{1} << 28};
  // For weights and for staging each; 0 = the host's memory.
  int64_t memory_bytes = 0;
};

// Batches run in the order of Enqueue. INVALID_ARGUMENT for options below 0
// or limits below 1.
absl::StatusOr<std::unique_ptr<Backend>> CreateReferenceBackend(
    const ReferenceOptions& options);

}  // namespace qgemm::reference

#endif  // QGEMM_KERNELS_REFERENCE_REFERENCE_BACKEND_H_
