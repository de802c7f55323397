// SPDX-License-Identifier: Apache-2.0
//
// Times a backend's kernels against the read roof, and on a GPU against
// cuBLAS, measured in the same run:
//   kernel_bench --backend=cpu --shapes=4096x14336 --m=1 --formats=kbit4
// or a program beside its products alone:
//   kernel_bench --backend=cpu --program=llama3-8b-layer --m=1,16
// The protocol is in bench/README.md.

#include <cstdint>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "bench/bench_case.h"
#include "bench/bench_program.h"
#include "bench/bench_report.h"
#include "bench/calibration.h"
#include "bench/gpu_measurer.h"
#include "bench/host_measurer.h"
#include "bench/measurer.h"
#include "bench/program_bench.h"
#include "bench/program_report.h"
#include "bench/speedup_summary.h"
#include "bench/sweep.h"
#include "flags/command_line.h"
#include "kernels/backends/backends.h"
#include "kernels/cpu/isa.h"
#include "kernels/cuda/plan/kernel_path.h"
#include "kernels/cuda/plan/tuning.h"

namespace qgemm {
namespace {

struct BenchOptions {
  BackendOptions backend;
  SweepText sweep;
  bool quick = false;
  bool full = false;
  std::string json;
  std::string calibrate;
  // --program: a known program, or a file.
  std::string program;
  std::string program_weights;
  std::string program_constants;
  int64_t rotate_bytes = int64_t{400} << 20;

  bool on_gpu() const { return backend.kind == BackendKind::kCuda; }
};

std::vector<std::pair<std::string, std::optional<cpu::CpuIsa>>> IsaChoices() {
  std::vector<std::pair<std::string, std::optional<cpu::CpuIsa>>> choices = {
      {"best", std::nullopt}};
  for (const cpu::CpuIsa isa : cpu::kCpuIsas) {
    choices.emplace_back(cpu::Name(isa), isa);
  }
  return choices;
}

void AddSweepOptions(CLI::App* app, BenchOptions* options) {
  SweepText* const sweep = &options->sweep;
  flags::AddOption(app, "shapes", &sweep->shapes,
                   "Layers as KxN, comma-separated. Empty: those of the sweep; "
                   "so below.");
  flags::AddOption(app, "m", &sweep->m,
                   "Rows of activations, comma-separated.");
  flags::AddOption(app, "formats", &sweep->formats,
                   "kbit2 kbit3 kbit4 kbit5 q4_0 int4 ternary dense, "
                   "comma-separated.");
  flags::AddOption(app, "dtypes", &sweep->dtypes,
                   "Types of A and C: fp16 bf16 fp32, comma-separated.");
  flags::AddSwitch(app, "quick", &options->quick, "A sweep of seconds.");
  flags::AddSwitch(app, "full", &options->full,
                   "A sweep of every shape, M, format and dtype.");
  flags::AddBytes(app, "rotate_bytes", &options->rotate_bytes,
                  "Size of all copies of a layer's weights together, which "
                  "launches rotate through.");
}

void AddProgramOptions(CLI::App* app, BenchOptions* options) {
  flags::AddOption(
      app, "program", &options->program,
      absl::StrCat("Program to time beside its products alone; replaces the "
                   "sweep: ",
                   absl::StrJoin(KnownPrograms(), " "),
                   ", or a file as `qgemm program load` takes it. Empty: "
                   "none."));
  flags::AddOption(app, "program_weights", &options->program_weights,
                   "Weights that a file names: NAME=KxN[:FORMAT], "
                   "comma-separated; those of --formats where none is given.");
  flags::AddOption(app, "program_constants", &options->program_constants,
                   "Widths of a file's constants without values, which become "
                   "ones: NAME=WIDTH, comma-separated.");
}

std::unique_ptr<CLI::App> MakeBenchApp(BenchOptions* options) {
  std::unique_ptr<CLI::App> app = flags::MakeApp(
      "Times kernels against the read roof of the same run.", "kernel_bench");
  BackendOptions* const backend = &options->backend;
  backend->kind = BackendKind::kCpu;
  flags::AddChoice<BackendKind>(app.get(), "backend", &backend->kind,
                                {{"cpu", BackendKind::kCpu},
                                 {"reference", BackendKind::kReference},
                                 {"cuda", BackendKind::kCuda}},
                                "Backend to measure.");
  AddSweepOptions(app.get(), options);
  AddProgramOptions(app.get(), options);
  flags::AddOption(app.get(), "json", &options->json,
                   "File to write the results to as well. Empty: none.");
  flags::AddChoice<cuda::KernelPath>(
      app.get(), "kernel", &backend->cuda.kernel,
      {std::begin(cuda::kKernelPaths), std::end(cuda::kKernelPaths)},
      "Kernel of the cuda backend; auto: the backend's choice.");
  flags::AddOption(app.get(), "calibrate", &options->calibrate,
                   "File to write the cuda backend's measured thresholds to, "
                   "for the server's --tuning_file; replaces the sweep. Empty: "
                   "none.");
  flags::AddOption(app.get(), "threads", &backend->cpu.threads,
                   "Threads of the cpu backend. 0: one per core.");
  flags::AddChoice(app.get(), "isa", &backend->cpu.isa, IsaChoices(),
                   "Instruction set of the cpu backend.");
  return app;
}

absl::Status Validate(const BenchOptions& options) {
  if (options.rotate_bytes < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--rotate_bytes = ", options.rotate_bytes,
                     " is below 1; give at least one byte"));
  }
  if (options.program.empty() && (!options.program_weights.empty() ||
                                  !options.program_constants.empty())) {
    return absl::InvalidArgumentError(
        "--program_weights and --program_constants are of a --program; give "
        "one");
  }
  if (options.calibrate.empty() || options.on_gpu()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--calibrate = \"", options.calibrate,
                   "\" measures the cuda backend; give --backend=cuda"));
}

RotationOptions RotationOf(const BenchOptions& options) {
  RotationOptions rotation;
  // The reference is a baseline of correctness, not of speed.
  rotation.total_bytes = options.backend.kind == BackendKind::kReference
                             ? 1
                             : options.rotate_bytes;
  return rotation;
}

absl::StatusOr<std::unique_ptr<Measurer>> CreateMeasurer(
    const BenchOptions& options) {
  if (options.on_gpu()) {
    GpuMeasurerOptions gpu;
    gpu.rotate_bytes = options.rotate_bytes;
    gpu.with_baselines = options.calibrate.empty();
    return CreateGpuMeasurer(gpu);
  }
  // The cases name the kernel, with an error of their own.
  BackendOptions on_host = options.backend;
  on_host.cuda = CudaOptions();
  ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend, CreateBackend(on_host));
  return std::make_unique<HostMeasurer>(std::move(backend),
                                        RotationOf(options));
}

absl::StatusOr<std::vector<BenchCase>> CasesOf(const BenchOptions& options) {
  SweepText text = options.sweep;
  // A layer of another size takes the reference seconds.
  if (options.backend.kind == BackendKind::kReference && text.shapes.empty()) {
    text.shapes = "256x256";
  }
  const SweepSize size = options.full    ? SweepSize::kFull
                         : options.quick ? SweepSize::kQuick
                                         : SweepSize::kDefault;
  ASSIGN_OR_RETURN(
      std::vector<BenchCase> cases,
      CasesOf(text, size,
              options.on_gpu() ? SweepTarget::kGpu : SweepTarget::kHost));
  for (BenchCase& one : cases) one.kernel = options.backend.cuda.kernel;
  return cases;
}

absl::Status WriteFile(const char* option, const std::string& path,
                       const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file.fail()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--", option, " = \"", path, "\": cannot write the file"));
}

// Other work on the machine lowers a measured roof or peak, so results are
// judged by the better of one before and one after the sweep.
absl::Status MeasureBoundsAgain(Measurer* measurer, BenchReport& report) {
  ASSIGN_OR_RETURN(const ReadRoof after, measurer->MeasureRoof());
  std::cout << absl::StrFormat("read roof after the sweep: %.1f GB/s\n",
                               after.gbps);
  if (after.gbps > report.roof.gbps) report.roof = after;
  const std::optional<MultiplyPeaks> peaks = measurer->MeasurePeaks();
  if (!peaks.has_value()) return absl::OkStatus();
  std::cout << absl::StrFormat("fp32 multiply-adds after it: %.0f GFLOP/s\n",
                               peaks->fp32_gflops);
  report.peaks = BestOf(*report.peaks, *peaks);
  return absl::OkStatus();
}

absl::Status RunSweep(Measurer* measurer, const std::vector<BenchCase>& cases,
                      const std::string& json) {
  BenchReport report;
  report.machine = measurer->machine();
  ASSIGN_OR_RETURN(report.roof, measurer->MeasureRoof());
  report.peaks = measurer->MeasurePeaks();
  std::cout << TableHead(report) << std::flush;
  for (const BenchCase& bench_case : cases) {
    absl::StatusOr<CaseResult> result = measurer->Measure(bench_case);
    if (absl::IsUnimplemented(result.status())) continue;
    RETURN_IF_ERROR(result.status());
    report.measured.push_back({bench_case, *result});
    std::cout << TableLine(report, report.measured.back()) << std::flush;
  }
  RETURN_IF_ERROR(MeasureBoundsAgain(measurer, report));
  std::cout << FormatSpeedups(SummarizeSpeedups(report.measured));
  return json.empty() ? absl::OkStatus()
                      : WriteFile("json", json, ToJson(report));
}

absl::Status RunCalibration(Measurer* measurer, const std::string& path) {
  // Brings the clocks up, too.
  ASSIGN_OR_RETURN(const ReadRoof roof, measurer->MeasureRoof());
  std::cout << absl::StrFormat("read roof %.1f GB/s\n", roof.gbps);
  ASSIGN_OR_RETURN(const Calibration calibration, Calibrate(measurer));
  std::cout << FormatCalibration(calibration);
  return WriteFile("calibrate", path, cuda::FormatTuning(calibration.tuning));
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ostringstream text;
  std::ifstream file(path, std::ios::binary);
  if (file) text << file.rdbuf();
  if (file) return text.str();
  return absl::NotFoundError(
      absl::StrCat("--program = \"", path,
                   "\" is neither a file that can be read nor one of ",
                   absl::StrJoin(KnownPrograms(), " ")));
}

absl::StatusOr<BenchProgram> ProgramOf(const BenchOptions& options,
                                       const std::string& format) {
  const auto known = KnownProgram(options.program, format);
  if (!absl::IsNotFound(known.status())) return known;
  ProgramSource source;
  source.name = options.program;
  ASSIGN_OR_RETURN(source.text, ReadFile(options.program));
  source.weights = options.program_weights;
  source.constants = options.program_constants;
  source.format = format;
  return ParseBenchProgram(source);
}

absl::Status RunProgram(const BenchOptions& options) {
  SweepText lists;
  lists.shapes = "32x1";  // not used; a program's weights have shapes
  lists.m = options.sweep.m.empty() ? "1,16,64" : options.sweep.m;
  lists.formats =
      options.sweep.formats.empty() ? "kbit4" : options.sweep.formats;
  lists.dtypes = "bf16";
  ASSIGN_OR_RETURN(const std::vector<BenchCase> cases, ExpandSweep(lists));
  ASSIGN_OR_RETURN(const auto backend, CreateBackend(options.backend));
  std::vector<MeasuredProgram> all;
  std::unique_ptr<ProgramBench> bench;
  for (const BenchCase& each : cases) {
    if (each.mode != ComputeMode::kA16) continue;
    if (all.empty() || all.back().format != each.format) {
      bench.reset();  // its memory goes back before the next takes some
      ASSIGN_OR_RETURN(const BenchProgram program,
                       ProgramOf(options, each.format));
      ASSIGN_OR_RETURN(bench, ProgramBench::Create(backend.get(), program,
                                                   RotationOf(options)));
      all.push_back({program.name,
                     each.format,
                     bench->weights_bytes(),
                     bench->copies(),
                     {}});
      std::cout << ProgramHead(backend->describe(), all.back()) << std::flush;
    }
    ASSIGN_OR_RETURN(const ProgramTimes times, bench->Run(each.m));
    all.back().times.push_back(times);
    std::cout << ProgramLine(all.back(), times) << std::flush;
  }
  return options.json.empty()
             ? absl::OkStatus()
             : WriteFile("json", options.json,
                         ProgramsToJson(backend->describe(), all));
}

absl::Status RunBench(const BenchOptions& options) {
  RETURN_IF_ERROR(Validate(options));
  if (!options.program.empty()) return RunProgram(options);
  ASSIGN_OR_RETURN(const std::vector<BenchCase> cases, CasesOf(options));
  ASSIGN_OR_RETURN(const std::unique_ptr<Measurer> measurer,
                   CreateMeasurer(options));
  return options.calibrate.empty()
             ? RunSweep(measurer.get(), cases, options.json)
             : RunCalibration(measurer.get(), options.calibrate);
}

}  // namespace
}  // namespace qgemm

int main(int argc, char** argv) {
  qgemm::BenchOptions options;
  const std::unique_ptr<CLI::App> app = qgemm::MakeBenchApp(&options);
  if (const auto code = qgemm::flags::Parse(app.get(), argc, argv)) {
    return *code;
  }
  const absl::Status status = qgemm::RunBench(options);
  if (status.ok()) return 0;
  std::cerr << "kernel_bench: " << status << std::endl;
  return 1;
}
