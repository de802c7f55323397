// SPDX-License-Identifier: Apache-2.0
//
// Times a backend's kernels against the read roof measured in the same run:
//   kernel_bench --backend=cpu --shapes=4096x14336 --m=1 --formats=kbit4
// The protocol is in bench/README.md.

#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "bench/bench_case.h"
#include "bench/bench_report.h"
#include "bench/case_runner.h"
#include "bench/read_roof.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/reference/reference_backend.h"

ABSL_FLAG(std::string, backend, "cpu", "What to measure: cpu or reference.");
ABSL_FLAG(std::string, shapes, "", "Layers as KxN, comma-separated.");
ABSL_FLAG(std::string, m, "", "Rows of activations, comma-separated.");
ABSL_FLAG(std::string, formats, "",
          "kbit2 kbit3 kbit4 kbit5 q4_0 int4 ternary dense, comma-separated.");
ABSL_FLAG(std::string, dtypes, "",
          "Of A and C: fp16 bf16 fp32, comma-separated.");
ABSL_FLAG(bool, quick, false, "A sweep of seconds.");
ABSL_FLAG(bool, full, false, "Every shape, M, format and dtype.");
ABSL_FLAG(std::string, json, "", "Also write the results to this file.");
ABSL_FLAG(int, threads, 0, "Of the cpu backend; 0 = one a processor.");
ABSL_FLAG(std::string, isa, "",
          "Of the cpu backend: scalar avx2 avx512 avx512vnni; empty = the "
          "best.");
ABSL_FLAG(int64_t, rotate_bytes, int64_t{400} << 20,
          "Weight copies that are visited in turn, in bytes.");

namespace qgemm {
namespace {

constexpr int64_t kRoofBytes = int64_t{512} << 20;

absl::StatusOr<std::unique_ptr<Backend>> CreateBackend() {
  const std::string name = absl::GetFlag(FLAGS_backend);
  if (name == "reference") return CreateReferenceBackend({});
  if (name != "cpu") {
    return absl::InvalidArgumentError(
        absl::StrCat("--backend: '", name, "'; legal: cpu, reference"));
  }
  CpuBackendOptions options;
  options.threads = absl::GetFlag(FLAGS_threads);
  const std::string isa = absl::GetFlag(FLAGS_isa);
  if (!isa.empty()) {
    options.isa = ParseCpuIsa(isa);
    if (!options.isa.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--isa: '", isa, "'; legal: scalar, avx2, avx512, avx512vnni"));
    }
  }
  return CreateCpuBackend(options);
}

SweepSize SizeOfSweep() {
  if (absl::GetFlag(FLAGS_full)) return SweepSize::kFull;
  return absl::GetFlag(FLAGS_quick) ? SweepSize::kQuick : SweepSize::kDefault;
}

absl::StatusOr<std::vector<BenchCase>> CasesOfFlags() {
  SweepText text = {absl::GetFlag(FLAGS_shapes), absl::GetFlag(FLAGS_m),
                    absl::GetFlag(FLAGS_formats), absl::GetFlag(FLAGS_dtypes)};
  // The reference is a yardstick of correctness; a layer takes it seconds.
  if (absl::GetFlag(FLAGS_backend) == "reference" && text.shapes.empty()) {
    text.shapes = "256x256";
  }
  return CasesOf(text, SizeOfSweep());
}

RotationOptions RotationOfFlags() {
  RotationOptions options;
  options.total_bytes = absl::GetFlag(FLAGS_backend) == "reference"
                            ? 1
                            : absl::GetFlag(FLAGS_rotate_bytes);
  return options;
}

absl::Status WriteJson(const BenchReport& report) {
  const std::string path = absl::GetFlag(FLAGS_json);
  if (path.empty()) return absl::OkStatus();
  std::ofstream file(path);
  file << ToJson(report);
  file.close();
  if (file.fail()) {
    return absl::InvalidArgumentError(absl::StrCat("--json: write ", path));
  }
  return absl::OkStatus();
}

// Other work on the machine lowers a measured roof; the better of one before
// and one after the sweep is what the results are judged by.
absl::Status MeasureRoofAgain(BenchReport& report) {
  ASSIGN_OR_RETURN(const ReadRoof after,
                   MeasureReadRoof(report.backend.parallelism, kRoofBytes));
  std::cout << absl::StrFormat("read roof after the sweep: %.1f GB/s\n",
                               after.gbps);
  if (after.gbps > report.roof.gbps) report.roof = after;
  return absl::OkStatus();
}

absl::Status RunBench() {
  ASSIGN_OR_RETURN(const std::vector<BenchCase> cases, CasesOfFlags());
  ASSIGN_OR_RETURN(const std::unique_ptr<Backend> backend, CreateBackend());
  BenchReport report;
  report.backend = backend->describe();
  ASSIGN_OR_RETURN(report.roof,
                   MeasureReadRoof(report.backend.parallelism, kRoofBytes));
  std::cout << TableHead(report) << std::flush;
  CaseRunner runner(backend.get(), RotationOfFlags());
  for (const BenchCase& bench_case : cases) {
    absl::StatusOr<CaseResult> result = runner.Run(bench_case);
    if (absl::IsUnimplemented(result.status())) continue;
    RETURN_IF_ERROR(result.status());
    report.measured.push_back({bench_case, *result});
    std::cout << TableLine(report.roof, report.measured.back()) << std::flush;
  }
  RETURN_IF_ERROR(MeasureRoofAgain(report));
  return WriteJson(report);
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
