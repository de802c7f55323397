// SPDX-License-Identifier: Apache-2.0
//
// A GPU: its properties, and which one a thread works on.

#ifndef QGEMM_KERNELS_CUDA_RUNTIME_DEVICE_H_
#define QGEMM_KERNELS_CUDA_RUNTIME_DEVICE_H_

#include <cuda.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/layout/device_traits.h"

namespace qgemm::cuda {

// cuTensorMapEncodeTiled, which is looked up, not linked.
using TensorMapEncoder = decltype(&cuTensorMapEncodeTiled);

// A GPU and what it offers. A plain value, which owns nothing.
struct Device {
  int index = 0;  // as the CUDA runtime counts
  DeviceTraits traits;
  std::string name;
  int64_t total_bytes = 0;
  int64_t free_bytes = 0;  // when it was opened
  // Describes activations to TMA; null on a GPU without it.
  TensorMapEncoder encode_tensor_map = nullptr;
};

// The oldest GPUs that the kernels run on: Ampere, compute capability 8.0.
inline constexpr int kMinComputeCapability = 80;

// OK for a compute capability, major * 10 + minor, that the kernels run on;
// else FAILED_PRECONDITION that names it.
absl::Status CheckComputeCapability(int compute_capability);

// Describes the GPU and makes it the calling thread's current device.
// Errors: FAILED_PRECONDITION (no driver, no GPU, or one that is too old),
// INVALID_ARGUMENT (no GPU of that index).
absl::StatusOr<Device> OpenDevice(int index);

// Makes the GPU the calling thread's current device: what the thread creates
// or allocates from now on is there.
absl::Status SetCurrentDevice(int index);

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_RUNTIME_DEVICE_H_
