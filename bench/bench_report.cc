// SPDX-License-Identifier: Apache-2.0
//
// Formats figures; derives rates from times.

#include "bench/bench_report.h"

#include <sys/utsname.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
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

nlohmann::json CaseToJson(const ReadRoof& roof, const MeasuredCase& measured) {
  const BenchCase& bench_case = measured.bench_case;
  const CaseResult& result = measured.result;
  return {
      {"format", bench_case.format},
      {"mode", std::string(Name(bench_case.mode))},
      {"dtype", std::string(Name(bench_case.dtype))},
      {"m", bench_case.m},
      {"n", bench_case.shape.n},
      {"k", bench_case.shape.k},
      {"us", Microseconds(result.median)},
      {"us_min", Microseconds(result.fastest)},
      {"us_max", Microseconds(result.slowest)},
      {"bytes", result.bytes_moved},
      {"copies", result.copies},
      {"roof_fraction", Gbps(measured) / roof.gbps},
      {"gflops", Gflops(measured)},
  };
}

std::string OperatingSystem() {
  utsname name{};
  if (uname(&name) != 0) return "unknown";
  return absl::StrCat(name.sysname, " ", name.release);
}

}  // namespace

std::string TableHead(const BenchReport& report) {
  return absl::StrFormat(
      "%s: %s, %s, %d threads; read roof %.1f GB/s (median pass %.1f)\n"
      "%-8s %-4s %-5s %5s %6s %6s %10s %21s %7s %6s %8s\n",
      report.backend.name, report.backend.device, report.backend.detail,
      report.backend.parallelism, report.roof.gbps, report.roof.median_gbps,
      "format", "mode", "dtype", "m", "k", "n", "us", "min..max", "GB/s",
      "roof", "GFLOP/s");
}

std::string TableLine(const ReadRoof& roof, const MeasuredCase& measured) {
  const BenchCase& bench_case = measured.bench_case;
  const CaseResult& result = measured.result;
  const std::string spread = absl::StrFormat(
      "%.1f..%.1f", Microseconds(result.fastest), Microseconds(result.slowest));
  return absl::StrFormat(
      "%-8s %-4s %-5s %5d %6d %6d %10.1f %21s %7.1f %5.0f%% %8.1f\n",
      bench_case.format, Name(bench_case.mode), Name(bench_case.dtype),
      bench_case.m, bench_case.shape.k, bench_case.shape.n,
      Microseconds(result.median), spread, Gbps(measured),
      100 * Gbps(measured) / roof.gbps, Gflops(measured));
}

std::string ToJson(const BenchReport& report) {
  nlohmann::json results = nlohmann::json::array();
  for (const MeasuredCase& measured : report.measured) {
    results.push_back(CaseToJson(report.roof, measured));
  }
  const nlohmann::json json = {
      {"version", kJsonVersion},
      {"tool", "kernel_bench"},
      {"time", absl::FormatTime(absl::Now(), absl::UTCTimeZone())},
      {"backend", report.backend.name},
      {"device", report.backend.device},
      {"isa", report.backend.detail},
      {"threads", report.backend.parallelism},
      {"driver", OperatingSystem()},
      {"build", absl::StrCat("compiler ", __VERSION__)},
      {"roof_gbps", report.roof.gbps},
      {"roof_median_gbps", report.roof.median_gbps},
      {"results", results},
  };
  return json.dump(1) + "\n";
}

}  // namespace qgemm
