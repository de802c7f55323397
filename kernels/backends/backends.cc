// SPDX-License-Identifier: Apache-2.0
//
// One row a backend.

#include "kernels/backends/backends.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
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

struct BackendRow {
  absl::string_view name;
  BackendOrError (*create)(const BackendOptions& options);
};

// In the order in which "auto" prefers them.
constexpr BackendRow kBackends[] = {
    {"cpu", CreateCpu},
    {"reference", CreateReference},
};

std::string ListOfNames() { return absl::StrJoin(BackendNames(), ", "); }

}  // namespace

std::vector<std::string> BackendNames() {
  std::vector<std::string> names;
  for (const BackendRow& row : kBackends) names.emplace_back(row.name);
  return names;
}

absl::StatusOr<std::unique_ptr<Backend>> CreateBackend(
    const BackendOptions& options) {
  if (options.threads < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "backend: threads = ", options.threads, "; legal: 0 or more"));
  }
  if (options.name == "auto") return kBackends[0].create(options);
  for (const BackendRow& row : kBackends) {
    if (options.name == row.name) return row.create(options);
  }
  if (options.name == "cuda") {
    return absl::FailedPreconditionError(absl::StrCat(
        "this build has no CUDA backend; it has: ", ListOfNames()));
  }
  return absl::InvalidArgumentError(absl::StrCat("backend: no \"", options.name,
                                                 "\"; legal: auto, cuda, ",
                                                 ListOfNames()));
}

}  // namespace qgemm
