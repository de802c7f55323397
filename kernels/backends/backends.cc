// SPDX-License-Identifier: Apache-2.0
//
// One row a backend.

#include "kernels/backends/backends.h"

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
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
  return CreateOptionalCuda(
      {options.kernel, options.row_moves, options.tuning_file});
}

bool Always() { return true; }

enum class KernelChoice { kNone, kByFamily };

struct BackendRow {
  absl::string_view name;
  bool (*is_in_build)();
  BackendOrError (*create)(const BackendOptions& options);
  // Whether it takes BackendOptions' kernel, row_moves and tuning_file.
  KernelChoice kernel_choice;
};

// In the order in which "auto" prefers them.
constexpr BackendRow kBackends[] = {
    {"cuda", BuildHasCuda, CreateCuda, KernelChoice::kByFamily},
    {"cpu", Always, CreateCpu, KernelChoice::kNone},
    {"reference", Always, CreateReference, KernelChoice::kNone},
};

std::string ListOfNames() { return absl::StrJoin(BackendNames(), ", "); }

// `flag` names the value.
absl::Status CheckChoice(absl::string_view flag, absl::string_view value,
                         absl::Span<const absl::string_view> legal) {
  if (absl::c_linear_search(legal, value)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      flag, " = \"", value, "\"; legal: ", absl::StrJoin(legal, ", ")));
}

absl::Status CheckOptions(const BackendOptions& options) {
  if (options.threads < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "backend: threads = ", options.threads, "; legal: 0 or more"));
  }
  RETURN_IF_ERROR(CheckChoice("--kernel", options.kernel,
                              {"auto", "small", "wide", "large"}));
  return CheckChoice("--row_moves", options.row_moves,
                     {"auto", "copy_engines"});
}

// Whether the backend takes the choices that the options make.
absl::Status CheckKernelChoice(const BackendRow& row,
                               const BackendOptions& options) {
  if (row.kernel_choice == KernelChoice::kByFamily) return absl::OkStatus();
  if (options.kernel != "auto") {
    return absl::InvalidArgumentError(
        absl::StrCat("--kernel = \"", options.kernel, "\": backend ", row.name,
                     " has one family of kernels; legal: auto"));
  }
  if (options.row_moves != "auto") {
    return absl::InvalidArgumentError(
        absl::StrCat("--row_moves = \"", options.row_moves, "\": backend ",
                     row.name, " reads rows in place; legal: auto"));
  }
  if (options.tuning_file.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--tuning_file = \"", options.tuning_file, "\": backend ",
                   row.name, " takes none; legal: empty"));
}

BackendOrError Create(const BackendRow& row, const BackendOptions& options) {
  RETURN_IF_ERROR(CheckKernelChoice(row, options));
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
