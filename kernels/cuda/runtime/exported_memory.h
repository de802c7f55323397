// SPDX-License-Identifier: Apache-2.0
//
// Device memory that other processes can have: it lives until the last
// descriptor of it is closed, also when the process that made it is gone.

#ifndef QGEMM_KERNELS_CUDA_RUNTIME_EXPORTED_MEMORY_H_
#define QGEMM_KERNELS_CUDA_RUNTIME_EXPORTED_MEMORY_H_

#include <cuda.h>

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_descriptor.h"
#include "kernels/cuda/runtime/imported_memory.h"

namespace qgemm::cuda {

// The GPU's UUID. Errors: INVALID_ARGUMENT (no such GPU).
absl::StatusOr<DeviceUuid> UuidOf(int device);

// An allocation of the driver's virtual memory management with a POSIX file
// descriptor, mapped for GPU `device`. Contents are undefined at first.
// Move-only. Taking it and giving it up may wait for the device.
class ExportedMemory {
 public:
  // At least `size_bytes`, a multiple of the driver's step, 2 MiB. Errors:
  // UNIMPLEMENTED (a driver without it), RESOURCE_EXHAUSTED.
  static absl::StatusOr<ExportedMemory> Allocate(int device,
                                                 int64_t size_bytes);

  ExportedMemory(ExportedMemory&& other) noexcept { *this = std::move(other); }
  ExportedMemory& operator=(ExportedMemory&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    std::swap(handle_, other.handle_);
    std::swap(address_, other.address_);
    std::swap(size_bytes_, other.size_bytes_);
    std::swap(is_mapped_, other.is_mapped_);
    return *this;
  }
  ~ExportedMemory();

  // An address of the device.
  uint8_t* data() const { return reinterpret_cast<uint8_t*>(address_); }
  int64_t size_bytes() const { return size_bytes_; }
  int descriptor() const { return descriptor_.get(); }

 private:
  ExportedMemory() = default;

  absl::Status Map(int device);

  // State of Allocate, which the destructor undoes.
  FileDescriptor descriptor_;
  CUmemGenericAllocationHandle handle_ = 0;
  CUdeviceptr address_ = 0;
  int64_t size_bytes_ = 0;
  bool is_mapped_ = false;
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_RUNTIME_EXPORTED_MEMORY_H_
