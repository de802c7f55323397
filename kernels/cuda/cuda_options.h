// SPDX-License-Identifier: Apache-2.0
//
// Options of the CUDA backend. Needs no CUDA header, so that programs have the
// options in builds without the backend too.

#ifndef QGEMM_KERNELS_CUDA_CUDA_OPTIONS_H_
#define QGEMM_KERNELS_CUDA_CUDA_OPTIONS_H_

#include <cstdint>
#include <string>

#include "kernels/cuda/plan/kernel_path.h"

namespace qgemm {

struct CudaOptions {
  // The GPU, as the CUDA runtime counts them.
  int device = 0;
  // Bytes of all layers together; 0 = the GPU's memory.
  int64_t max_weights_bytes = 0;
  // Bytes of all leases of pinned host memory together; 0 = the host's memory.
  int64_t max_staging_bytes = 0;
  // Bytes of staging buffers that are kept for reuse.
  int64_t max_pooled_staging_bytes = int64_t{1} << 30;
  // Shapes and batches beyond these are refused.
  int64_t max_n = int64_t{1} << 20;
  int64_t max_k = int64_t{1} << 20;
  int64_t max_batch_rows = 8192;
  // Layers are in memory that can outlive the process (Backend::kept_memory).
  bool keep_memory = false;
  // The kernel for every request, for debugging; kAuto chooses by layer and
  // number of rows.
  cuda::KernelPath kernel = cuda::KernelPath::kAuto;
  // File with the thresholds of kAuto (plan/tuning.h). Empty: built-in ones. A
  // tuning of another GPU is used, and a warning logged.
  std::string tuning_file;
};

}  // namespace qgemm

#endif  // QGEMM_KERNELS_CUDA_CUDA_OPTIONS_H_
