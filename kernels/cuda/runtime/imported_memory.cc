// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/runtime/imported_memory.h"

#include <cuda_runtime_api.h>

#include <cstring>
#include <string>

#include "absl/base/casts.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "kernels/cuda/runtime/cuda_status.h"
#include "kernels/cuda/runtime/vmm_driver.h"

namespace qgemm::cuda {
namespace {

absl::Status CheckUuid(int device, const DeviceUuid& uuid) {
  cudaDeviceProp properties = {};
  RETURN_IF_ERROR(ToStatus(cudaGetDeviceProperties(&properties, device),
                           absl::StrCat("query CUDA device ", device)));
  static_assert(sizeof(properties.uuid) == sizeof(uuid), "a UUID");
  if (std::memcmp(&properties.uuid, uuid.data(), uuid.size()) == 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "device_uuid: the memory is on another GPU than the server's, ",
      properties.name));
}

}  // namespace

absl::StatusOr<ImportedMemory> ImportedMemory::Map(int device, int descriptor,
                                                   int64_t size_bytes,
                                                   const DeviceUuid& uuid) {
  RETURN_IF_ERROR(CheckUuid(device, uuid));
  RETURN_IF_ERROR(TheVmmDriver().status());
  const VmmDriver& driver = *TheVmmDriver();
  const std::string what =
      absl::StrCat(size_bytes, " bytes of a client's device memory");
  ImportedMemory memory;
  RETURN_IF_ERROR(
      DriverStatus(driver.import(&memory.handle_,
                                 absl::bit_cast<void*>(intptr_t{descriptor}),
                                 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
                   absl::StrCat("import ", what)));
  CUmemAllocationProp properties = {};
  RETURN_IF_ERROR(DriverStatus(driver.properties(&properties, memory.handle_),
                               absl::StrCat("query ", what)));
  if (properties.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
      properties.location.id != device) {
    return absl::InvalidArgumentError(
        absl::StrCat("the descriptor's memory is not on device ", device));
  }
  // The driver maps no more than the allocation has.
  RETURN_IF_ERROR(
      DriverStatus(driver.reserve(&memory.address_, size_bytes, 0, 0, 0),
                   absl::StrCat("reserve addresses for ", what)));
  memory.size_bytes_ = size_bytes;
  RETURN_IF_ERROR(DriverStatus(
      driver.map(memory.address_, size_bytes, 0, memory.handle_, 0),
      absl::StrCat("map ", what)));
  memory.is_mapped_ = true;
  CUmemAccessDesc access = {};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  RETURN_IF_ERROR(
      DriverStatus(driver.set_access(memory.address_, size_bytes, &access, 1),
                   absl::StrCat("use ", what)));
  return memory;
}

ImportedMemory::~ImportedMemory() {
  if (handle_ == 0 && address_ == 0) return;
  const VmmDriver& driver = *TheVmmDriver();
  const auto undo = [](CUresult result, const char* operation) {
    const absl::Status status = DriverStatus(result, operation);
    if (!status.ok()) LOG(ERROR) << status.message();
  };
  if (is_mapped_) {
    undo(driver.unmap(address_, size_bytes_), "unmap a client's memory");
  }
  if (address_ != 0) {
    undo(driver.free(address_, size_bytes_), "free a client's addresses");
  }
  if (handle_ != 0) {
    undo(driver.release(handle_), "release a client's memory");
  }
}

}  // namespace qgemm::cuda
