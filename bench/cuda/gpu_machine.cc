// SPDX-License-Identifier: Apache-2.0
//
// The driver's own version stands in /proc; the CUDA version that it serves is
// told by the runtime.

#include "bench/cuda/gpu_machine.h"

#include <cuda_runtime_api.h>

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "kernels/cuda/cublas/cublas_library.h"
#include "kernels/cuda/runtime/cuda_status.h"

namespace qgemm::cuda {
namespace {

// "13.0" of CUDA's 13000.
std::string CudaVersion(int version) {
  return absl::StrCat(version / 1000, ".", version % 1000 / 10);
}

// "580.95.05", or "unknown": the first word of the file that is made of digits
// and dots alone, with a dot in it.
std::string KernelDriverVersion() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string line;
  std::getline(file, line);
  const std::vector<std::string> words =
      absl::StrSplit(line, ' ', absl::SkipEmpty());
  for (const std::string& word : words) {
    if (word.find('.') != std::string::npos &&
        word.find_first_not_of("0123456789.") == std::string::npos) {
      return word;
    }
  }
  return "unknown";
}

absl::StatusOr<int> MegahertzOf(cudaDeviceAttr attribute) {
  int device = 0;
  int kilohertz = 0;
  RETURN_IF_ERROR(ToStatus(cudaGetDevice(&device), "find the current GPU"));
  RETURN_IF_ERROR(
      ToStatus(cudaDeviceGetAttribute(&kilohertz, attribute, device),
               "query a GPU's clock"));
  return kilohertz / 1000;
}

absl::StatusOr<std::string> DescribeDriver() {
  int version = 0;
  RETURN_IF_ERROR(
      ToStatus(cudaDriverGetVersion(&version), "query the driver's version"));
  ASSIGN_OR_RETURN(const CublasLibrary library, LoadCublasLibrary());
  return absl::StrCat("NVIDIA ", KernelDriverVersion(), ", CUDA ",
                      CudaVersion(version), ", cuBLASLt ",
                      library.GetVersion());
}

}  // namespace

absl::StatusOr<BenchMachine> DescribeMachine(
    const BackendDescription& backend) {
  BenchMachine machine;
  machine.backend = backend;
  ASSIGN_OR_RETURN(machine.driver, DescribeDriver());
  machine.build = absl::StrCat("compiler ", __VERSION__, ", CUDA ",
                               CudaVersion(CUDART_VERSION));
  GpuClocks clocks;
  ASSIGN_OR_RETURN(clocks.sm_mhz, MegahertzOf(cudaDevAttrClockRate));
  ASSIGN_OR_RETURN(clocks.memory_mhz, MegahertzOf(cudaDevAttrMemoryClockRate));
  machine.clocks = clocks;
  return machine;
}

}  // namespace qgemm::cuda
