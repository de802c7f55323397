// SPDX-License-Identifier: Apache-2.0
//
// Times a backend's kernels against the read roof, and on a GPU against
// cuBLAS, measured in the same run:
//   kernel_bench --backend=cpu --shapes=4096x14336 --m=1 --formats=kbit4
// The protocol is in bench/README.md.

#include <cstdint>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "bench/bench_case.h"
#include "bench/bench_report.h"
#include "bench/calibration.h"
#include "bench/gpu_measurer.h"
#include "bench/host_measurer.h"
#include "bench/measurer.h"
#include "bench/speedup_summary.h"
#include "bench/sweep.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/plan/tuning.h"
#include "kernels/reference/reference_backend.h"

ABSL_FLAG(std::string, backend, "cpu",
          "What to measure: cpu, reference or cuda.");
ABSL_FLAG(std::string, shapes, "", "Layers as KxN, comma-separated.");
ABSL_FLAG(std::string, m, "", "Rows of activations, comma-separated.");
ABSL_FLAG(std::string, formats, "",
          "kbit2 kbit3 kbit4 kbit5 q4_0 int4 ternary dense, comma-separated.");
ABSL_FLAG(std::string, dtypes, "",
          "Of A and C: fp16 bf16 fp32, comma-separated.");
ABSL_FLAG(bool, quick, false, "A sweep of seconds.");
ABSL_FLAG(bool, full, false, "Every shape, M, format and dtype.");
ABSL_FLAG(std::string, json, "", "Also write the results to this file.");
ABSL_FLAG(
    std::string, kernel, "auto",
    "Kernel of the cuda backend: auto as it chooses, or decode, prefill or "
    "cublas.");
ABSL_FLAG(std::string, calibrate, "",
          "Measure the cuda backend's thresholds instead, and write them to "
          "this file, for the server's --tuning_file.");
ABSL_FLAG(int, threads, 0, "Of the cpu backend; 0 = one a processor.");
ABSL_FLAG(std::string, isa, "",
          "Of the cpu backend: scalar avx2 avx512 avx512vnni amx; empty = the "
          "best.");
ABSL_FLAG(int64_t, rotate_bytes, int64_t{400} << 20,
          "Weight copies that are visited in turn, in bytes.");

namespace qgemm {
namespace {

bool OnGpu() { return absl::GetFlag(FLAGS_backend) == "cuda"; }

absl::StatusOr<std::unique_ptr<Backend>> CreateHostBackend() {
  const std::string name = absl::GetFlag(FLAGS_backend);
  if (name == "reference") return reference::CreateReferenceBackend({});
  if (name != "cpu") {
    return absl::InvalidArgumentError(
        absl::StrCat("--backend: '", name, "'; legal: cpu, reference, cuda"));
  }
  cpu::CpuOptions options;
  options.threads = absl::GetFlag(FLAGS_threads);
  const std::string isa = absl::GetFlag(FLAGS_isa);
  if (!isa.empty()) {
    options.isa = cpu::ParseCpuIsa(isa);
    if (!options.isa.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--isa: '", isa, "'; legal: scalar, avx2, avx512, avx512vnni, amx"));
    }
  }
  return cpu::CreateCpuBackend(options);
}

absl::StatusOr<std::unique_ptr<Measurer>> CreateMeasurer() {
  const int64_t rotate_bytes = absl::GetFlag(FLAGS_rotate_bytes);
  if (OnGpu()) {
    GpuMeasurerOptions options;
    options.rotate_bytes = rotate_bytes;
    options.with_baselines = absl::GetFlag(FLAGS_calibrate).empty();
    return CreateGpuMeasurer(options);
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend, CreateHostBackend());
  RotationOptions options;
  // The reference is a baseline of correctness, not of speed.
  options.total_bytes =
      absl::GetFlag(FLAGS_backend) == "reference" ? 1 : rotate_bytes;
  return std::make_unique<HostMeasurer>(std::move(backend), options);
}

SweepSize SizeOfSweep() {
  if (absl::GetFlag(FLAGS_full)) return SweepSize::kFull;
  return absl::GetFlag(FLAGS_quick) ? SweepSize::kQuick : SweepSize::kDefault;
}

absl::StatusOr<std::vector<BenchCase>> CasesOfFlags() {
  SweepText text = {absl::GetFlag(FLAGS_shapes), absl::GetFlag(FLAGS_m),
                    absl::GetFlag(FLAGS_formats), absl::GetFlag(FLAGS_dtypes)};
  // A layer of another size takes the reference seconds.
  if (absl::GetFlag(FLAGS_backend) == "reference" && text.shapes.empty()) {
    text.shapes = "256x256";
  }
  ASSIGN_OR_RETURN(const cuda::KernelPath kernel,
                   cuda::ParseKernelPath(absl::GetFlag(FLAGS_kernel)));
  ASSIGN_OR_RETURN(std::vector<BenchCase> cases,
                   CasesOf(text, SizeOfSweep(),
                           OnGpu() ? SweepTarget::kGpu : SweepTarget::kHost));
  for (BenchCase& one : cases) one.kernel = kernel;
  return cases;
}

absl::Status CheckFlags() {
  const int64_t rotate_bytes = absl::GetFlag(FLAGS_rotate_bytes);
  if (rotate_bytes < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--rotate_bytes: ", rotate_bytes, "; legal: 1 or more"));
  }
  if (absl::GetFlag(FLAGS_calibrate).empty() || OnGpu()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--calibrate: with --backend=", absl::GetFlag(FLAGS_backend),
                   "; legal: with cuda"));
}

absl::Status WriteFile(const char* flag, const std::string& path,
                       const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file.fail()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--", flag, ": write ", path));
}

// Other work on the machine lowers a measured roof; the better of one before
// and one after the sweep is what the results are judged by.
absl::Status MeasureRoofAgain(Measurer* measurer, BenchReport& report) {
  ASSIGN_OR_RETURN(const ReadRoof after, measurer->MeasureRoof());
  std::cout << absl::StrFormat("read roof after the sweep: %.1f GB/s\n",
                               after.gbps);
  if (after.gbps > report.roof.gbps) report.roof = after;
  return absl::OkStatus();
}

absl::Status RunSweep(Measurer* measurer, const std::vector<BenchCase>& cases) {
  BenchReport report;
  report.machine = measurer->machine();
  ASSIGN_OR_RETURN(report.roof, measurer->MeasureRoof());
  std::cout << TableHead(report) << std::flush;
  for (const BenchCase& bench_case : cases) {
    absl::StatusOr<CaseResult> result = measurer->Measure(bench_case);
    if (absl::IsUnimplemented(result.status())) continue;
    RETURN_IF_ERROR(result.status());
    report.measured.push_back({bench_case, *result});
    std::cout << TableLine(report, report.measured.back()) << std::flush;
  }
  RETURN_IF_ERROR(MeasureRoofAgain(measurer, report));
  std::cout << FormatSpeedups(SummarizeSpeedups(report.measured));
  const std::string path = absl::GetFlag(FLAGS_json);
  return path.empty() ? absl::OkStatus()
                      : WriteFile("json", path, ToJson(report));
}

absl::Status RunCalibration(Measurer* measurer, const std::string& path) {
  // Brings the clocks up, too.
  ASSIGN_OR_RETURN(const ReadRoof roof, measurer->MeasureRoof());
  std::cout << absl::StrFormat("read roof %.1f GB/s\n", roof.gbps);
  ASSIGN_OR_RETURN(const Calibration calibration, Calibrate(measurer));
  std::cout << FormatCalibration(calibration);
  return WriteFile("calibrate", path, cuda::FormatTuning(calibration.tuning));
}

absl::Status RunBench() {
  RETURN_IF_ERROR(CheckFlags());
  ASSIGN_OR_RETURN(const std::vector<BenchCase> cases, CasesOfFlags());
  ASSIGN_OR_RETURN(const std::unique_ptr<Measurer> measurer, CreateMeasurer());
  const std::string calibrate = absl::GetFlag(FLAGS_calibrate);
  return calibrate.empty() ? RunSweep(measurer.get(), cases)
                           : RunCalibration(measurer.get(), calibrate);
}

}  // namespace
}  // namespace qgemm

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "Times matmul kernels against the read roof of the same run.");
  absl::ParseCommandLine(argc, argv);
  const absl::Status status = qgemm::RunBench();
  if (status.ok()) return 0;
  std::cerr << "kernel_bench: " << status << std::endl;
  return 1;
}
