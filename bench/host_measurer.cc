// SPDX-License-Identifier: Apache-2.0
//
// Figures through the Backend interface, the roof by threads of its own.

#include "bench/host_measurer.h"

#include <sys/utsname.h>

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "bench/multiply_peak.h"
#include "bench/read_roof.h"
#include "kernels/cpu/isa.h"

namespace qgemm {
namespace {

constexpr int64_t kRoofBytes = int64_t{512} << 20;

std::string OperatingSystem() {
  utsname name{};
  if (uname(&name) != 0) return "unknown";
  return absl::StrCat(name.sysname, " ", name.release);
}

}  // namespace

HostMeasurer::HostMeasurer(std::unique_ptr<Backend> backend,
                           const RotationOptions& options)
    : backend_(std::move(backend)), runner_(backend_.get(), options) {}

BenchMachine HostMeasurer::machine() const {
  BenchMachine machine;
  machine.backend = backend_->describe();
  machine.driver = OperatingSystem();
  machine.build = absl::StrCat("compiler ", __VERSION__);
  return machine;
}

absl::StatusOr<ReadRoof> HostMeasurer::MeasureRoof() {
  return MeasureReadRoof(backend_->describe().parallelism, kRoofBytes);
}

std::optional<MultiplyPeaks> HostMeasurer::MeasurePeaks() {
  const BackendDescription backend = backend_->describe();
  for (const cpu::CpuIsa isa : cpu::SupportedCpuIsas()) {
    if (backend.detail != cpu::Name(isa)) continue;
    return MeasureMultiplyPeaks(isa, backend.parallelism);
  }
  return std::nullopt;
}

absl::StatusOr<CaseResult> HostMeasurer::Measure(const BenchCase& bench_case) {
  if (bench_case.kernel != cuda::KernelPath::kAuto) {
    return absl::InvalidArgumentError(
        absl::StrCat("--kernel: the ", backend_->describe().name,
                     " backend has one path of kernels; leave it at auto"));
  }
  return runner_.Run(bench_case);
}

}  // namespace qgemm
