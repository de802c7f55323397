// SPDX-License-Identifier: Apache-2.0
//
// Times that the kernels at both ends of a batch take and leave to the host.

#ifndef QGEMM_KERNELS_CUDA_LAUNCH_BATCH_STAMPS_H_
#define QGEMM_KERNELS_CUDA_LAUNCH_BATCH_STAMPS_H_

#include <cstdint>

namespace qgemm::cuda {

// Times of a batch in nanoseconds of the GPU's clock. `sequence`, the number of
// batches so far, is written last, so that the host may poll it.
struct BatchStamps {
  uint64_t gather_begin = 0;
  uint64_t gather_end = 0;
  uint64_t scatter_begin = 0;
  uint64_t scatter_end = 0;
  uint64_t sequence = 0;
};

// Device memory that the two kernels of a batch share; zero at first, and, but
// for `sequence`, again after each scatter.
struct BatchProgress {
  unsigned long long gather_begin;  // NOLINT: what atomics take
  unsigned long long gather_end;    // NOLINT
  unsigned int scattered_blocks;
  unsigned int first_rows;  // whose first inputs are there
  uint64_t sequence;        // of the last stamps
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_LAUNCH_BATCH_STAMPS_H_
