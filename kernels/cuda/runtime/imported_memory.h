// SPDX-License-Identifier: Apache-2.0
//
// Device memory of another process, mapped into this one.

#ifndef QGEMM_KERNELS_CUDA_RUNTIME_IMPORTED_MEMORY_H_
#define QGEMM_KERNELS_CUDA_RUNTIME_IMPORTED_MEMORY_H_

#include <cuda.h>

#include <array>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace qgemm::cuda {

// A GPU's UUID, as cuDeviceGetUuid has it.
using DeviceUuid = std::array<uint8_t, 16>;

// An allocation of the driver's virtual memory management that another process
// exported as a POSIX file descriptor. It lives until the last of all processes
// that map it gives it up, and each of them may change its contents at any
// time. Move-only. Mapping and unmapping may wait for the device.
class ImportedMemory {
 public:
  // Maps `size_bytes`, for reading and writing by GPU `device`, whose UUID must
  // be `uuid`. The descriptor is borrowed. The calling thread's current device
  // is `device`.
  // Errors: UNIMPLEMENTED (a driver without it), INVALID_ARGUMENT (another
  // GPU's memory, a descriptor that is none, a size that is not the
  // allocation's), RESOURCE_EXHAUSTED.
  static absl::StatusOr<ImportedMemory> Map(int device, int descriptor,
                                            int64_t size_bytes,
                                            const DeviceUuid& uuid);

  ImportedMemory(ImportedMemory&& other) noexcept { *this = std::move(other); }
  ImportedMemory& operator=(ImportedMemory&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(address_, other.address_);
    std::swap(size_bytes_, other.size_bytes_);
    std::swap(is_mapped_, other.is_mapped_);
    return *this;
  }
  ~ImportedMemory();

  // An address of the device.
  uint8_t* data() const { return reinterpret_cast<uint8_t*>(address_); }
  int64_t size_bytes() const { return size_bytes_; }

 private:
  ImportedMemory() = default;

  // State of Map, which the destructor undoes.
  CUmemGenericAllocationHandle handle_ = 0;
  CUdeviceptr address_ = 0;
  int64_t size_bytes_ = 0;
  bool is_mapped_ = false;
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_RUNTIME_IMPORTED_MEMORY_H_
