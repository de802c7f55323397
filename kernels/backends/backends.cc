// SPDX-License-Identifier: Apache-2.0
//
// One row for each backend. QGEMM_HAS_CUDA comes from BUILD.

#include "kernels/backends/backends.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "kernels/reference/reference_backend.h"
#if QGEMM_HAS_CUDA
#include "kernels/cuda/cuda_backend.h"
#endif

namespace qgemm {
namespace {

using BackendOrError = absl::StatusOr<std::unique_ptr<Backend>>;

BackendOrError CreateCpu(const BackendOptions& options) {
  return cpu::CreateCpuBackend(options.cpu);
}

BackendOrError CreateReference(const BackendOptions&) {
  return reference::CreateReferenceBackend({});
}

#if QGEMM_HAS_CUDA
BackendOrError CreateCuda(const BackendOptions& options) {
  return CreateCudaBackend(options.cuda);
}
#endif

struct BackendRow {
  BackendKind kind;
  BackendOrError (*create)(const BackendOptions& options);
};

// In the order in which kAuto prefers them.
constexpr BackendRow kBackends[] = {
#if QGEMM_HAS_CUDA
    {BackendKind::kCuda, CreateCuda},
#endif
    {BackendKind::kCpu, CreateCpu},
    {BackendKind::kReference, CreateReference},
};

// INVALID_ARGUMENT if an option is set that another backend than cuda ignores.
absl::Status CheckKernelOptions(BackendKind kind, const CudaOptions& options) {
  if (kind == BackendKind::kCuda) return absl::OkStatus();
  if (options.kernel != cuda::KernelPath::kAuto) {
    return absl::InvalidArgumentError(
        absl::StrCat("--kernel = \"", Name(options.kernel), "\": backend ",
                     Name(kind), " has no such choice; leave it at auto"));
  }
  if (options.tuning_file.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--tuning_file = \"", options.tuning_file, "\": backend ",
                   Name(kind), " reads none; leave it empty"));
}

BackendOrError Create(const BackendRow& row, const BackendOptions& options) {
  RETURN_IF_ERROR(CheckKernelOptions(row.kind, options.cuda));
  return row.create(options);
}

// `status`, and the reason why a backend before that one was passed over.
absl::Status WithReason(const absl::Status& status,
                        const absl::Status& passed_over) {
  if (passed_over.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(status.message(), " (auto took it because: ",
                                   passed_over.message(), ")"));
}

// The first that this host can run. Only a missing device is passed over;
// other errors are returned.
BackendOrError CreateFastest(const BackendOptions& options) {
  absl::Status missing;
  for (const BackendRow& row : kBackends) {
    BackendOrError backend = Create(row, options);
    if (backend.ok()) return backend;
    if (!absl::IsFailedPrecondition(backend.status())) {
      return WithReason(backend.status(), missing);
    }
    missing = backend.status();
  }
  return missing;
}

std::string NamesInBuild() {
  const auto append = [](std::string* text, BackendKind kind) {
    absl::StrAppend(text, Name(kind));
  };
  return absl::StrJoin(BackendsInBuild(), ", ", append);
}

}  // namespace

absl::string_view Name(BackendKind kind) {
  for (const auto& [name, named] : kBackendKinds) {
    if (named == kind) return name;
  }
  return "?";
}

std::vector<BackendKind> BackendsInBuild() {
  std::vector<BackendKind> kinds;
  for (const BackendRow& row : kBackends) kinds.push_back(row.kind);
  return kinds;
}

absl::StatusOr<std::unique_ptr<Backend>> CreateBackend(
    const BackendOptions& options) {
  if (options.cpu.threads < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "backend: threads = ", options.cpu.threads, " is below 0"));
  }
  if (options.kind == BackendKind::kAuto) return CreateFastest(options);
  for (const BackendRow& row : kBackends) {
    if (options.kind == row.kind) return Create(row, options);
  }
  return absl::FailedPreconditionError(
      absl::StrCat("this build has no ", Name(options.kind),
                   " backend; it has: ", NamesInBuild()));
}

}  // namespace qgemm
