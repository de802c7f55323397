// SPDX-License-Identifier: Apache-2.0
//
// One row a backend.

#include "kernels/backends/backends.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "kernels/backends/optional_cuda.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/reference/reference_backend.h"

namespace qgemm {
namespace {

using BackendOrError = absl::StatusOr<std::unique_ptr<Backend>>;

BackendOrError CreateCpu(const BackendOptions& options) {
  cpu::CpuOptions cpu;
  cpu.threads = options.threads;
  return cpu::CreateCpuBackend(cpu);
}

BackendOrError CreateReference(const BackendOptions&) {
  return reference::CreateReferenceBackend({});
}

BackendOrError CreateCuda(const BackendOptions& options) {
  return CreateOptionalCuda(options.cuda);
}

bool Always() { return true; }

struct BackendRow {
  absl::string_view name;
  bool (*is_in_build)();
  BackendOrError (*create)(const BackendOptions& options);
  bool takes_cuda_options;
};

// In the order in which "auto" prefers them.
constexpr BackendRow kBackends[] = {
    {"cuda", BuildHasCuda, CreateCuda, true},
    {"cpu", Always, CreateCpu, false},
    {"reference", Always, CreateReference, false},
};

std::string ListOfNames() { return absl::StrJoin(BackendNames(), ", "); }

absl::Status CheckOptions(const BackendOptions& options) {
  if (options.threads < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "backend: threads = ", options.threads, "; legal: 0 or more"));
  }
  return absl::OkStatus();
}

// INVALID_ARGUMENT if the options choose what the backend does not have.
absl::Status CheckCudaOptions(const BackendRow& row,
                              const CudaOptions& options) {
  if (row.takes_cuda_options) return absl::OkStatus();
  if (options.kernel != cuda::KernelPath::kAuto) {
    return absl::InvalidArgumentError(
        absl::StrCat("--kernel = \"", Name(options.kernel), "\": backend ",
                     row.name, " has one path of kernels; leave it at auto"));
  }
  if (options.tuning_file.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--tuning_file = \"", options.tuning_file, "\": backend ",
                   row.name, " takes none; leave it empty"));
}

BackendOrError Create(const BackendRow& row, const BackendOptions& options) {
  RETURN_IF_ERROR(CheckCudaOptions(row, options.cuda));
  return row.create(options);
}

// `status`, and why a backend before that one was passed over.
absl::Status WithReason(const absl::Status& status,
                        const absl::Status& passed_over) {
  if (passed_over.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(status.message(), " (auto took it because: ",
                                   passed_over.message(), ")"));
}

// The first that this host can run. An error of another kind than a missing
// device is told, not passed over.
BackendOrError CreateFastest(const BackendOptions& options) {
  absl::Status missing;
  for (const BackendRow& row : kBackends) {
    if (!row.is_in_build()) continue;
    BackendOrError backend = Create(row, options);
    if (backend.ok()) return backend;
    if (!absl::IsFailedPrecondition(backend.status())) {
      return WithReason(backend.status(), missing);
    }
    missing = backend.status();
  }
  return missing;
}

}  // namespace

std::vector<std::string> BackendNames() {
  std::vector<std::string> names;
  for (const BackendRow& row : kBackends) {
    if (row.is_in_build()) names.emplace_back(row.name);
  }
  return names;
}

absl::StatusOr<std::unique_ptr<Backend>> CreateBackend(
    const BackendOptions& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  if (options.name == "auto") return CreateFastest(options);
  for (const BackendRow& row : kBackends) {
    if (options.name != row.name) continue;
    if (row.is_in_build()) return Create(row, options);
    return absl::FailedPreconditionError(
        absl::StrCat("this build has no ", absl::AsciiStrToUpper(row.name),
                     " backend; it has: ", ListOfNames()));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "backend: no \"", options.name, "\"; legal: auto, ", ListOfNames()));
}

}  // namespace qgemm
