// SPDX-License-Identifier: Apache-2.0
//
// A build without CUDA.

#include "kernels/cuda/runtime/client_memory.h"

namespace qgemm::cuda {

absl::StatusOr<std::unique_ptr<ClientMemory>> ClientMemory::Allocate(int64_t) {
  return absl::FailedPreconditionError(
      "this build has no CUDA, and so no memory of a GPU");
}

}  // namespace qgemm::cuda
