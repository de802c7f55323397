// SPDX-License-Identifier: Apache-2.0

#include "bench/program_report.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "nlohmann/json.hpp"

namespace qgemm {
namespace {

constexpr int kJsonVersion = 1;

double Microseconds(absl::Duration time) {
  return absl::ToDoubleMicroseconds(time);
}

// To thousandths: more would be noise.
double Rounded(double value) { return std::round(value * 1000) / 1000; }

double Ratio(absl::Duration products, absl::Duration program) {
  if (program <= absl::ZeroDuration()) return 0;
  return absl::FDivDuration(products, program);
}

// Rate at which the program's kernels read its weights.
double WeightsGbps(const MeasuredProgram& measured, const ProgramTimes& times) {
  if (times.program.kernel <= absl::ZeroDuration()) return 0;
  return measured.weights_bytes / Microseconds(times.program.kernel) * 1e-3;
}

nlohmann::json ToJson(const LaunchTimes& times) {
  return {{"us", Rounded(Microseconds(times.median))},
          {"us_min", Rounded(Microseconds(times.fastest))},
          {"us_max", Rounded(Microseconds(times.slowest))},
          {"kernel_us", Rounded(Microseconds(times.kernel))}};
}

nlohmann::json ToJson(const MeasuredProgram& measured,
                      const ProgramTimes& times) {
  nlohmann::json products = nlohmann::json::array();
  for (const ProductTimes& each : times.products) {
    nlohmann::json product = ToJson(each.times);
    product["op"] = each.op;
    product["format"] = each.weights.format;
    product["n"] = each.weights.shape.n;
    product["k"] = each.weights.shape.k;
    products.push_back(std::move(product));
  }
  nlohmann::json json = ToJson(times.program);
  json["program"] = measured.name;
  json["format"] = measured.format;
  json["m"] = times.m;
  json["weights_bytes"] = measured.weights_bytes;
  json["copies"] = measured.copies;
  json["launches"] = times.launches;
  json["weights_gbps"] = Rounded(WeightsGbps(measured, times));
  json["products_us"] = Rounded(Microseconds(times.all_products.median));
  json["products_kernel_us"] = Rounded(Microseconds(times.all_products.kernel));
  json["ratio"] = Rounded(ProductsRatio(times));
  json["kernel_ratio"] = Rounded(KernelRatio(times));
  json["products"] = std::move(products);
  return json;
}

}  // namespace

double ProductsRatio(const ProgramTimes& times) {
  return Ratio(times.all_products.median, times.program.median);
}

double KernelRatio(const ProgramTimes& times) {
  return Ratio(times.all_products.kernel, times.program.kernel);
}

std::string ProgramHead(const BackendDescription& backend,
                        const MeasuredProgram& measured) {
  return absl::StrFormat(
      "%s: %s, %s, parallelism %d; %s in %s, %.1f MB of weights in %d copies\n"
      "%5s %11s %21s %10s %11s %10s %6s %9s %7s\n",
      backend.name, backend.device, backend.detail, backend.parallelism,
      measured.name, measured.format, measured.weights_bytes * 1e-6,
      measured.copies, "m", "program us", "min..max", "kernel us",
      "products us", "kernel us", "ratio", "of kernel", "GB/s");
}

std::string ProgramLine(const MeasuredProgram& measured,
                        const ProgramTimes& times) {
  const std::string spread =
      absl::StrFormat("%.1f..%.1f", Microseconds(times.program.fastest),
                      Microseconds(times.program.slowest));
  return absl::StrFormat(
      "%5d %11.1f %21s %10.1f %11.1f %10.1f %6.2f %9.2f %7.1f\n", times.m,
      Microseconds(times.program.median), spread,
      Microseconds(times.program.kernel),
      Microseconds(times.all_products.median),
      Microseconds(times.all_products.kernel), ProductsRatio(times),
      KernelRatio(times), WeightsGbps(measured, times));
}

std::string ProgramsToJson(const BackendDescription& backend,
                           const std::vector<MeasuredProgram>& measured) {
  const nlohmann::json head = {
      {"version", kJsonVersion},
      {"tool", "kernel_bench"},
      {"time", absl::FormatTime(absl::Now(), absl::UTCTimeZone())},
      {"backend", backend.name},
      {"device", backend.device},
      {"isa", backend.detail},
      {"threads", backend.parallelism}};
  // One result a line: a diff of two runs reads well.
  std::string text = head.dump(1);
  text.resize(text.rfind("\n}"));
  text += ",\n \"programs\": [";
  absl::string_view separator = "\n  ";
  for (const MeasuredProgram& program : measured) {
    for (const ProgramTimes& times : program.times) {
      absl::StrAppend(&text, separator, ToJson(program, times).dump());
      separator = ",\n  ";
    }
  }
  return text + "\n ]\n}\n";
}

}  // namespace qgemm
