// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/runtime/vmm_driver.h"

#include <cuda_runtime_api.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cuda/runtime/cuda_status.h"

namespace qgemm::cuda {
namespace {

// CUDA 10.2 has all of them.
constexpr unsigned int kDriverVersion = 10020;

template <typename Function>
absl::Status LookUp(const char* name, Function* function) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result;
  RETURN_IF_ERROR(
      ToStatus(cudaGetDriverEntryPointByVersion(name, &found, kDriverVersion,
                                                cudaEnableDefault, &result),
               absl::StrCat("look up ", name)));
  if (result != cudaDriverEntryPointSuccess) {
    return absl::UnimplementedError(absl::StrCat(
        "the driver has no ", name, ", which memory of other processes needs"));
  }
  *function = reinterpret_cast<Function>(found);
  return absl::OkStatus();
}

absl::StatusOr<VmmDriver> LoadDriver() {
  VmmDriver driver;
  RETURN_IF_ERROR(LookUp("cuMemGetAllocationGranularity", &driver.granularity));
  RETURN_IF_ERROR(LookUp("cuMemCreate", &driver.create));
  RETURN_IF_ERROR(
      LookUp("cuMemExportToShareableHandle", &driver.export_handle));
  RETURN_IF_ERROR(LookUp("cuMemImportFromShareableHandle", &driver.import));
  RETURN_IF_ERROR(
      LookUp("cuMemGetAllocationPropertiesFromHandle", &driver.properties));
  RETURN_IF_ERROR(LookUp("cuMemAddressReserve", &driver.reserve));
  RETURN_IF_ERROR(LookUp("cuMemMap", &driver.map));
  RETURN_IF_ERROR(LookUp("cuMemSetAccess", &driver.set_access));
  RETURN_IF_ERROR(LookUp("cuMemUnmap", &driver.unmap));
  RETURN_IF_ERROR(LookUp("cuMemAddressFree", &driver.free));
  RETURN_IF_ERROR(LookUp("cuMemRelease", &driver.release));
  return driver;
}

}  // namespace

const absl::StatusOr<VmmDriver>& TheVmmDriver() {
  static const auto* const driver = new absl::StatusOr<VmmDriver>(LoadDriver());
  return *driver;
}

absl::Status DriverStatus(CUresult result, const std::string& operation) {
  if (result == CUDA_SUCCESS) return absl::OkStatus();
  const std::string text = absl::StrCat("cannot ", operation, ": CUDA error ",
                                        static_cast<int>(result));
  return result == CUDA_ERROR_OUT_OF_MEMORY ? absl::ResourceExhaustedError(text)
                                            : absl::InvalidArgumentError(text);
}

}  // namespace qgemm::cuda
