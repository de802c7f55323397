// SPDX-License-Identifier: Apache-2.0
//
// Formats figures; derives rates from times.

#include "bench/bench_report.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"

namespace qgemm {
namespace {

constexpr int kJsonVersion = 1;

double Microseconds(absl::Duration duration) {
  return absl::ToDoubleMicroseconds(duration);
}

double Gbps(const MeasuredCase& measured) {
  return measured.result.bytes_moved / Microseconds(measured.result.median) *
         1e-3;
}

double Gflops(const MeasuredCase& measured) {
  const BenchCase& bench_case = measured.bench_case;
  return 2.0 * bench_case.m * bench_case.shape.n * bench_case.shape.k /
         Microseconds(measured.result.median) * 1e-3;
}

// To so many decimals: more would be noise, and in a committed file a burden.
double Rounded(double value, double decimals) {
  const double unit = std::pow(10.0, decimals);
  return std::round(value * unit) / unit;
}

double JsonMicroseconds(absl::Duration duration) {
  return Rounded(Microseconds(duration), 3);
}

// The multiply-adds that a case consists of, and their peak. On AMX fp16
// activations are two bf16 parts, as the codebook is: three products of tiles.
Bound MultiplyBound(const MultiplyPeaks& peaks, const MeasuredCase& measured) {
  constexpr double kProductsOfFloat16 = 3;
  const BenchCase& bench_case = measured.bench_case;
  const double rate = Gflops(measured);
  if (bench_case.mode == ComputeMode::kA8) {
    return {"int8", rate / peaks.int8_gops};
  }
  const bool is_fp16 = bench_case.dtype == FloatType::kFloat16;
  if (bench_case.mode != ComputeMode::kA16 || bench_case.format == "dense" ||
      peaks.bf16_gflops == 0 || (is_fp16 && !peaks.splits_fp16)) {
    return {"fp32", rate / peaks.fp32_gflops};
  }
  const double products = is_fp16 ? kProductsOfFloat16 : 1;
  return {"bf16", products * rate / peaks.bf16_gflops};
}

nlohmann::json CaseToJson(const BenchReport& report,
                          const MeasuredCase& measured) {
  const ReadRoof& roof = report.roof;
  const BenchCase& bench_case = measured.bench_case;
  const CaseResult& result = measured.result;
  nlohmann::json json = {
      {"format", bench_case.format},
      {"mode", std::string(Name(bench_case.mode))},
      {"dtype", std::string(Name(bench_case.dtype))},
      {"m", bench_case.m},
      {"n", bench_case.shape.n},
      {"k", bench_case.shape.k},
      {"us", JsonMicroseconds(result.median)},
      {"us_min", JsonMicroseconds(result.fastest)},
      {"us_max", JsonMicroseconds(result.slowest)},
      {"bytes", result.bytes_moved},
      {"copies", result.copies},
      {"roof_fraction", Rounded(Gbps(measured) / roof.gbps, 4)},
      {"gflops", Rounded(Gflops(measured), 1)},
  };
  if (report.peaks.has_value()) {
    const Bound bound = BoundOf(report, measured);
    json["bound"] = bound.name;
    json["bound_fraction"] = Rounded(bound.fraction, 4);
  }
  if (!result.kernel.empty()) {
    json["kernel"] = result.kernel;
    json["kernel_reason"] = result.kernel_reason;
  }
  if (result.cublas.has_value()) {
    json["cublas_us"] = JsonMicroseconds(*result.cublas);
    json["speedup_vs_cublas"] = Rounded(SpeedupVsCublas(result), 3);
  }
  if (result.cublas_fp32.has_value()) {
    json["cublas_fp32_us"] = JsonMicroseconds(*result.cublas_fp32);
  }
  if (result.dequantize_cublas.has_value()) {
    json["dequant_cublas_us"] = JsonMicroseconds(*result.dequantize_cublas);
  }
  return json;
}

// Everything but the results.
nlohmann::json HeadToJson(const BenchReport& report) {
  const BenchMachine& machine = report.machine;
  nlohmann::json json = {
      {"version", kJsonVersion},
      {"tool", "kernel_bench"},
      {"time", absl::FormatTime(absl::Now(), absl::UTCTimeZone())},
      {"backend", machine.backend.name},
      {"device", machine.backend.device},
      {"isa", machine.backend.detail},
      {"threads", machine.backend.parallelism},
      {"driver", machine.driver},
      {"build", machine.build},
      {"roof_gbps", Rounded(report.roof.gbps, 2)},
      {"roof_median_gbps", Rounded(report.roof.median_gbps, 2)},
  };
  if (report.peaks.has_value()) {
    json["peaks"] = {{"fp32_gflops", Rounded(report.peaks->fp32_gflops, 1)},
                     {"int8_gops", Rounded(report.peaks->int8_gops, 1)},
                     {"bf16_gflops", Rounded(report.peaks->bf16_gflops, 1)}};
  }
  if (machine.clocks.has_value()) {
    json["clocks"] = {{"sm_mhz", machine.clocks->sm_mhz},
                      {"memory_mhz", machine.clocks->memory_mhz}};
  }
  return json;
}

std::string PeaksLine(const std::optional<MultiplyPeaks>& peaks) {
  if (!peaks.has_value()) return "";
  return absl::StrFormat(
      "multiply-adds: fp32 %.0f GFLOP/s, int8 %.0f GOP/s, bf16 %.0f "
      "GFLOP/s\n",
      peaks->fp32_gflops, peaks->int8_gops, peaks->bf16_gflops);
}

std::string BoundCell(const BenchReport& report, const MeasuredCase& measured) {
  if (!report.peaks.has_value()) return "";
  const Bound bound = BoundOf(report, measured);
  return absl::StrFormat("  %3.0f%% %s", 100 * bound.fraction, bound.name);
}

std::string CublasHead() {
  return absl::StrFormat(" %7s %9s %8s %10s  %-44s", "kernel", "cuBLAS us",
                         "x cuBLAS", "deq+cuBLAS", "why");
}

// A time, or a dash.
std::string Cell(const std::optional<absl::Duration>& time) {
  if (!time.has_value()) return "-";
  return absl::StrFormat("%.1f", Microseconds(*time));
}

std::string CublasCells(const CaseResult& result) {
  const std::string speedup =
      result.cublas.has_value()
          ? absl::StrFormat("%.2f", SpeedupVsCublas(result))
          : "-";
  return absl::StrFormat(" %7s %9s %8s %10s  %-44s", result.kernel,
                         Cell(result.cublas), speedup,
                         Cell(result.dequantize_cublas), result.kernel_reason);
}

}  // namespace

Bound BoundOf(const BenchReport& report, const MeasuredCase& measured) {
  const Bound read = {"read", Gbps(measured) / report.roof.gbps};
  const Bound multiply = MultiplyBound(*report.peaks, measured);
  return multiply.fraction > read.fraction ? multiply : read;
}

double SpeedupVsCublas(const CaseResult& result) {
  return absl::FDivDuration(*result.cublas, result.median);
}

std::string TableHead(const BenchReport& report) {
  const BackendDescription& backend = report.machine.backend;
  const bool gpu = report.machine.has_cublas();
  std::string head = absl::StrFormat(
      "%s: %s, %s, %d %s; read roof %.1f GB/s (median pass %.1f)\n",
      backend.name, backend.device, backend.detail, backend.parallelism,
      gpu ? "SMs" : "threads", report.roof.gbps, report.roof.median_gbps);
  absl::StrAppend(&head, PeaksLine(report.peaks));
  absl::StrAppendFormat(&head,
                        "%-8s %-4s %-5s %5s %6s %6s %10s %21s %7s %6s %8s",
                        "format", "mode", "dtype", "m", "k", "n", "us",
                        "min..max", "GB/s", "roof", "GFLOP/s");
  return absl::StrCat(head, gpu ? CublasHead() : "",
                      report.peaks.has_value() ? "  bound\n" : "\n");
}

std::string TableLine(const BenchReport& report, const MeasuredCase& measured) {
  const BenchCase& bench_case = measured.bench_case;
  const CaseResult& result = measured.result;
  const std::string spread = absl::StrFormat(
      "%.1f..%.1f", Microseconds(result.fastest), Microseconds(result.slowest));
  const std::string line = absl::StrFormat(
      "%-8s %-4s %-5s %5d %6d %6d %10.1f %21s %7.1f %5.0f%% %8.1f",
      bench_case.format, Name(bench_case.mode), Name(bench_case.dtype),
      bench_case.m, bench_case.shape.k, bench_case.shape.n,
      Microseconds(result.median), spread, Gbps(measured),
      100 * Gbps(measured) / report.roof.gbps, Gflops(measured));
  const bool gpu = report.machine.has_cublas();
  return absl::StrCat(line, gpu ? CublasCells(result) : "",
                      BoundCell(report, measured), "\n");
}

std::string ToJson(const BenchReport& report) {
  // One result a line: short, and a diff of two runs reads well.
  std::string text = HeadToJson(report).dump(1);
  text.resize(text.rfind("\n}"));
  text += ",\n \"results\": [";
  absl::string_view separator = "\n  ";
  for (const MeasuredCase& measured : report.measured) {
    absl::StrAppend(&text, separator, CaseToJson(report, measured).dump());
    separator = ",\n  ";
  }
  return text + "\n ]\n}\n";
}

}  // namespace qgemm
