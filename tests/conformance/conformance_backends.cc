// SPDX-License-Identifier: Apache-2.0
//
// The rows.

#include "tests/conformance/conformance_backends.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "kernels/backends/backends.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/isa.h"
#include "kernels/reference/reference_backend.h"
#include "tests/support/fake_async_backend.h"

namespace qgemm {
namespace {

// One microkernel family of the CPU backend; two threads, so that work is
// shared out.
absl::StatusOr<std::unique_ptr<Backend>> CreateCpu(cpu::CpuIsa isa) {
  if (!absl::c_linear_search(cpu::SupportedCpuIsas(), isa)) {
    return absl::FailedPreconditionError(
        absl::StrCat("this processor has no ", Name(isa)));
  }
  cpu::CpuOptions options;
  options.threads = 2;
  options.isa = isa;
  return cpu::CreateCpuBackend(options);
}

// The CUDA backend with one kernel path. FAILED_PRECONDITION in a build without
// CUDA, on a host without a GPU, and where the path is not there.
absl::StatusOr<std::unique_ptr<Backend>> CreateCuda(cuda::KernelPath kernel) {
  BackendOptions options;
  options.kind = BackendKind::kCuda;
  options.cuda.kernel = kernel;
  return CreateBackend(options);
}

}  // namespace

std::vector<ConformanceBackend> ConformanceBackends() {
  std::vector<ConformanceBackend> backends = {
      {"reference", [] { return reference::CreateReferenceBackend({}); }},
      {"fake_async",
       []() -> absl::StatusOr<std::unique_ptr<Backend>> {
         return std::make_unique<FakeAsyncBackend>();
       }},
  };
  for (const cpu::CpuIsa isa : cpu::kCpuIsas) {
    backends.push_back(
        {absl::StrCat("cpu_", Name(isa)), [isa] { return CreateCpu(isa); }});
  }
  backends.push_back(
      {"cuda", [] { return CreateCuda(cuda::KernelPath::kAuto); }});
  for (const cuda::KernelPath kernel :
       {cuda::KernelPath::kDecode, cuda::KernelPath::kCublas}) {
    backends.push_back({absl::StrCat("cuda_", Name(kernel)),
                        [kernel] { return CreateCuda(kernel); }});
  }
  return backends;
}

}  // namespace qgemm
