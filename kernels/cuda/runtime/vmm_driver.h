// SPDX-License-Identifier: Apache-2.0
//
// The driver's virtual memory management. Its functions are looked up: a build
// host has no driver to link.

#ifndef QGEMM_KERNELS_CUDA_RUNTIME_VMM_DRIVER_H_
#define QGEMM_KERNELS_CUDA_RUNTIME_VMM_DRIVER_H_

#include <cuda.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace qgemm::cuda {

struct VmmDriver {
  decltype(&cuMemGetAllocationGranularity) granularity = nullptr;
  decltype(&cuMemCreate) create = nullptr;
  decltype(&cuMemExportToShareableHandle) export_handle = nullptr;
  decltype(&cuMemImportFromShareableHandle) import = nullptr;
  decltype(&cuMemGetAllocationPropertiesFromHandle) properties = nullptr;
  decltype(&cuMemAddressReserve) reserve = nullptr;
  decltype(&cuMemMap) map = nullptr;
  decltype(&cuMemSetAccess) set_access = nullptr;
  decltype(&cuMemUnmap) unmap = nullptr;
  decltype(&cuMemAddressFree) free = nullptr;
  decltype(&cuMemRelease) release = nullptr;
};

// Looked up once a process. Errors: UNIMPLEMENTED (a driver without one).
const absl::StatusOr<VmmDriver>& TheVmmDriver();

// Errors: RESOURCE_EXHAUSTED (no memory), INVALID_ARGUMENT.
absl::Status DriverStatus(CUresult result, const std::string& operation);

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_RUNTIME_VMM_DRIVER_H_
