// SPDX-License-Identifier: Apache-2.0
//
// The CPU backend: fused decode and dot over weights that are repacked once,
// on the best instruction set that the processor has. Never holds a
// dequantized copy of a layer.

#ifndef QGEMM_KERNELS_CPU_CPU_BACKEND_H_
#define QGEMM_KERNELS_CPU_CPU_BACKEND_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "kernels/cpu/isa.h"
#include "kernels/matrix/backend.h"

namespace qgemm::cpu {

struct CpuOptions {
  // Threads that compute; 0 = one for each processor the process may use.
  int threads = 0;
  // The instruction set; nullopt = the best that the processor supports.
  std::optional<CpuIsa> isa;
  // All layers together, in bytes; 0 = the machine's memory.
  int64_t max_weights_bytes = 0;
  // All leases together, in bytes; 0 = the machine's memory.
  int64_t max_staging_bytes = 0;
  // Staging buffers kept for reuse, in bytes.
  int64_t max_pooled_staging_bytes = int64_t{256} << 20;
  // Shapes and batches beyond these are refused.
  int64_t max_n = int64_t{1} << 20;
  int64_t max_k = int64_t{1} << 20;
  int64_t max_batch_rows = 16384;
  // Layers are in memory that can outlive the process (Backend::kept_memory).
  bool keep_memory = false;
};

// Errors: INVALID_ARGUMENT (a negative option), FAILED_PRECONDITION (an
// instruction set that the processor lacks).
absl::StatusOr<std::unique_ptr<Backend>> CreateCpuBackend(
    const CpuOptions& options);

}  // namespace qgemm::cpu

#endif  // QGEMM_KERNELS_CPU_CPU_BACKEND_H_
