// SPDX-License-Identifier: Apache-2.0
//
// What choosers need to know of a GPU. Plain values: runtime/ fills them in.

#ifndef QGEMM_KERNELS_CUDA_TUNING_DEVICE_TRAITS_H_
#define QGEMM_KERNELS_CUDA_TUNING_DEVICE_TRAITS_H_

#include <cstdint>

namespace qgemm::cuda {

struct DeviceTraits {
  int compute_capability = 90;  // major * 10 + minor
  int multiprocessors = 132;
  int64_t l2_bytes = int64_t{50} << 20;
  int64_t shared_bytes_per_block = 227 << 10;  // the opt-in limit

  // Clusters of blocks with distributed shared memory.
  bool has_clusters() const { return compute_capability >= 90; }
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_TUNING_DEVICE_TRAITS_H_
