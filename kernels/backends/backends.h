// SPDX-License-Identifier: Apache-2.0
//
// The explicit list of backends in this build, and the one way to make one.

#ifndef QGEMM_KERNELS_BACKENDS_BACKENDS_H_
#define QGEMM_KERNELS_BACKENDS_BACKENDS_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/cuda_options.h"
#include "kernels/matrix/backend.h"

namespace qgemm {

enum class BackendKind : uint8_t {
  kAuto,  // the fastest that runs here
  kCuda,
  kCpu,
  kReference,
};

// Names of options and reports.
inline constexpr std::pair<const char*, BackendKind> kBackendKinds[] = {
    {"auto", BackendKind::kAuto},
    {"cuda", BackendKind::kCuda},
    {"cpu", BackendKind::kCpu},
    {"reference", BackendKind::kReference},
};
absl::string_view Name(BackendKind kind);

// Each backend reads its own options.
struct BackendOptions {
  BackendKind kind = BackendKind::kAuto;
  cpu::CpuOptions cpu;
  CudaOptions cuda;
};

// The backends of this build, in the order in which kAuto prefers them.
std::vector<BackendKind> BackendsInBuild();

// Errors: INVALID_ARGUMENT (an illegal option, or a --kernel or --tuning_file
// for a backend other than cuda), NOT_FOUND (no such tuning file),
// FAILED_PRECONDITION (a backend that this build or this host lacks).
absl::StatusOr<std::unique_ptr<Backend>> CreateBackend(
    const BackendOptions& options);

}  // namespace qgemm

#endif  // QGEMM_KERNELS_BACKENDS_BACKENDS_H_
