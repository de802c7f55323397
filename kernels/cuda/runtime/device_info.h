// SPDX-License-Identifier: Apache-2.0
//
// What is known of a GPU, and which one a thread works on.

#ifndef QGEMM_KERNELS_CUDA_RUNTIME_DEVICE_INFO_H_
#define QGEMM_KERNELS_CUDA_RUNTIME_DEVICE_INFO_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/tuning/device_traits.h"

namespace qgemm::cuda {

// The oldest GPUs that the kernels run on: Ampere, compute capability 8.0.
inline constexpr int kMinComputeCapability = 80;

// OK for a compute capability, major * 10 + minor, that the kernels run on;
// else FAILED_PRECONDITION that names it.
absl::Status CheckComputeCapability(int compute_capability);

// Errors of the three: FAILED_PRECONDITION (no driver, no GPU, or one that is
// too old), INVALID_ARGUMENT (no GPU of that index).
absl::StatusOr<DeviceTraits> QueryDevice(int index);
absl::StatusOr<std::string> QueryDeviceName(int index);
absl::StatusOr<int64_t> QueryDeviceTotalBytes(int index);

// Makes the GPU the calling thread's current device: what the thread creates
// or allocates from now on is there.
absl::Status SetCurrentDevice(int index);

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_RUNTIME_DEVICE_INFO_H_
