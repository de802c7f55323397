// SPDX-License-Identifier: Apache-2.0
//
// The multiplication of one request of few rows in one kernel, which brings its
// rows from the host and takes its results there. As decode kernels behind
// LaunchGatherProgramRows and before LaunchScatterProgramRows, whose starts and
// ends take as long as a small layer.

#ifndef QGEMM_KERNELS_CUDA_LAUNCH_DECODE_REQUEST_H_
#define QGEMM_KERNELS_CUDA_LAUNCH_DECODE_REQUEST_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/launch/batch_stamps.h"
#include "kernels/cuda/launch/gemm.h"
#include "kernels/cuda/runtime/device.h"

namespace qgemm::cuda {

struct DecodeRequestOperands {
  // `a` is device memory for the rows, lda k; `c` is pinned host memory, or
  // other memory that the GPU can write.
  GemmOperands gemm;
  const uint8_t* host_a = nullptr;  // [m, k], pinned, 16-byte aligned
  BatchProgress* progress = nullptr;
  BatchStamps* stamps = nullptr;
};

// Raises the limit of shared memory of the kernels' blocks. Once a device,
// which is the current one, before the first launch.
cudaError_t PrepareDecodeRequest(const Device& device);

// True if there is a kernel for these: on sm_90, m at most 8, as many bytes of
// rows as a block's threads have at once, rows of 16-byte multiples.
bool OffersDecodeRequest(const Device& device,
                         const DecodeRequestOperands& operands);

// As LaunchDecodeGemm, but that it begins when the kernel before has ended, and
// writes the stamps when all is done. Errors: cudaErrorInvalidValue if it is
// not offered.
cudaError_t LaunchDecodeRequest(const Device& device,
                                const DecodeRequestOperands& operands,
                                cudaStream_t stream);

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_LAUNCH_DECODE_REQUEST_H_
