// SPDX-License-Identifier: Apache-2.0
//
// Facts about a GPU that plans depend on. Plain values: runtime/ and launch/
// fill them in.

#ifndef QGEMM_KERNELS_CUDA_LAYOUT_DEVICE_TRAITS_H_
#define QGEMM_KERNELS_CUDA_LAYOUT_DEVICE_TRAITS_H_

#include <cstdint>

namespace qgemm::cuda {

// The defaults are an H100's.
struct DeviceTraits {
  int compute_capability = 90;  // major * 10 + minor
  int sm_count = 132;
  int64_t l2_bytes = int64_t{50} << 20;
  int64_t shared_bytes_per_block = 227 << 10;  // the opt-in limit
  // The code that is loaded for the GPU has wgmma: only code made for that very
  // chip has, not what the driver compiles from PTX.
  bool has_wgmma = false;

  // Clusters of blocks with distributed shared memory.
  bool has_clusters() const { return compute_capability >= 90; }
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_LAYOUT_DEVICE_TRAITS_H_
