// SPDX-License-Identifier: Apache-2.0
//
// One row a backend.

#include "kernels/backends/backends.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "kernels/backends/optional_cuda.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/reference/reference_backend.h"

namespace qgemm {
namespace {

using BackendOrError = absl::StatusOr<std::unique_ptr<Backend>>;

BackendOrError CreateCpu(const BackendOptions& options) {
  CpuBackendOptions cpu;
  cpu.threads = options.threads;
  return CreateCpuBackend(cpu);
}

BackendOrError CreateReference(const BackendOptions&) {
  return CreateReferenceBackend({});
}

BackendOrError CreateCuda(const BackendOptions&) {
  return CreateOptionalCuda();
}

bool Always() { return true; }

struct BackendRow {
  absl::string_view name;
  bool (*is_in_build)();
  BackendOrError (*create)(const BackendOptions& options);
};

// In the order in which "auto" prefers them.
constexpr BackendRow kBackends[] = {
    {"cuda", BuildHasCuda, CreateCuda},
    {"cpu", Always, CreateCpu},
    {"reference", Always, CreateReference},
};

std::string ListOfNames() { return absl::StrJoin(BackendNames(), ", "); }

// The first that this host can run. An error of another kind than a missing
// device is told, not passed over.
BackendOrError CreateFastest(const BackendOptions& options) {
  absl::Status missing;
  for (const BackendRow& row : kBackends) {
    if (!row.is_in_build()) continue;
    BackendOrError backend = row.create(options);
    if (!absl::IsFailedPrecondition(backend.status())) return backend;
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
  if (options.threads < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "backend: threads = ", options.threads, "; legal: 0 or more"));
  }
  if (options.name == "auto") return CreateFastest(options);
  for (const BackendRow& row : kBackends) {
    if (options.name != row.name) continue;
    if (row.is_in_build()) return row.create(options);
    return absl::FailedPreconditionError(
        absl::StrCat("this build has no ", absl::AsciiStrToUpper(row.name),
                     " backend; it has: ", ListOfNames()));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "backend: no \"", options.name, "\"; legal: auto, ", ListOfNames()));
}

}  // namespace qgemm
