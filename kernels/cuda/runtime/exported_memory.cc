// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/runtime/exported_memory.h"

#include <cuda_runtime_api.h>
#include <fcntl.h>

#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "kernels/cuda/runtime/cuda_status.h"
#include "kernels/cuda/runtime/vmm_driver.h"

namespace qgemm::cuda {
namespace {

CUmemAllocationProp PropertiesFor(int device) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return properties;
}

}  // namespace

absl::StatusOr<DeviceUuid> UuidOf(int device) {
  cudaDeviceProp properties = {};
  RETURN_IF_ERROR(ToStatus(cudaGetDeviceProperties(&properties, device),
                           absl::StrCat("query CUDA device ", device)));
  DeviceUuid uuid;
  static_assert(sizeof(properties.uuid) == sizeof(uuid), "a UUID");
  std::memcpy(uuid.data(), &properties.uuid, uuid.size());
  return uuid;
}

absl::StatusOr<ExportedMemory> ExportedMemory::Allocate(int device,
                                                        int64_t size_bytes) {
  const std::string what =
      absl::StrCat(size_bytes, " bytes of device memory to be kept");
  if (size_bytes <= 0) return absl::InvalidArgumentError(what);
  RETURN_IF_ERROR(TheVmmDriver().status());
  const VmmDriver& driver = *TheVmmDriver();
  const CUmemAllocationProp properties = PropertiesFor(device);
  size_t step = 0;
  RETURN_IF_ERROR(
      DriverStatus(driver.granularity(&step, &properties,
                                      CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
                   absl::StrCat("ask for the step of ", what)));
  ExportedMemory memory;
  memory.size_bytes_ =
      static_cast<int64_t>((size_bytes + step - 1) / step * step);
  RETURN_IF_ERROR(DriverStatus(
      driver.create(&memory.handle_, memory.size_bytes_, &properties, 0),
      absl::StrCat("allocate ", what)));
  int descriptor = -1;
  RETURN_IF_ERROR(DriverStatus(
      driver.export_handle(&descriptor, memory.handle_,
                           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
      absl::StrCat("export ", what)));
  memory.descriptor_.Reset(descriptor);
  fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  RETURN_IF_ERROR(memory.Map(device));
  return memory;
}

absl::Status ExportedMemory::Map(int device) {
  const VmmDriver& driver = *TheVmmDriver();
  RETURN_IF_ERROR(DriverStatus(driver.reserve(&address_, size_bytes_, 0, 0, 0),
                               "reserve addresses for memory to be kept"));
  RETURN_IF_ERROR(DriverStatus(driver.map(address_, size_bytes_, 0, handle_, 0),
                               "map memory to be kept"));
  is_mapped_ = true;
  CUmemAccessDesc access = {};
  access.location = PropertiesFor(device).location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return DriverStatus(driver.set_access(address_, size_bytes_, &access, 1),
                      "use memory to be kept");
}

ExportedMemory::~ExportedMemory() {
  if (handle_ == 0 && address_ == 0) return;
  const VmmDriver& driver = *TheVmmDriver();
  const auto undo = [](CUresult result, const char* operation) {
    const absl::Status status = DriverStatus(result, operation);
    if (!status.ok()) LOG(ERROR) << status.message();
  };
  if (is_mapped_)
    undo(driver.unmap(address_, size_bytes_), "unmap kept memory");
  if (address_ != 0) {
    undo(driver.free(address_, size_bytes_), "free addresses of kept memory");
  }
  if (handle_ != 0) undo(driver.release(handle_), "release kept memory");
}

}  // namespace qgemm::cuda
