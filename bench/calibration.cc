// SPDX-License-Identifier: Apache-2.0
//
// Times both paths at every M, then chooses by code width.

#include "bench/calibration.h"

#include <cmath>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace qgemm {
namespace {

constexpr int kWidths[] = {2, 3, 4, 5};
constexpr int64_t kRows[] = {128, 192, 256, 384, 512, 768, 1024};
// Gate and up of Llama 3 70B and 8B.
constexpr BenchShape kShapes[] = {{8192, 28672}, {4096, 14336}};

absl::StatusOr<PathTimes> MeasurePaths(BenchCase one, int bits,
                                       Measurer* measurer) {
  one.kernel = cuda::KernelPath::kDecode;
  ASSIGN_OR_RETURN(const CaseResult decode, measurer->Measure(one));
  one.kernel = cuda::KernelPath::kCublas;
  ASSIGN_OR_RETURN(const CaseResult cublas, measurer->Measure(one));
  return PathTimes{bits, one.shape, one.m, decode.median, cublas.median};
}

absl::StatusOr<std::vector<PathTimes>> MeasureWidth(int bits,
                                                    Measurer* measurer) {
  std::vector<PathTimes> times;
  BenchCase one;
  one.format = absl::StrCat("kbit", bits);
  for (const BenchShape& shape : kShapes) {
    one.shape = shape;
    for (int64_t m : kRows) {
      one.m = m;
      ASSIGN_OR_RETURN(const PathTimes both, MeasurePaths(one, bits, measurer));
      times.push_back(both);
    }
  }
  return times;
}

}  // namespace

int64_t ChooseMaxDecodeRows(absl::Span<const PathTimes> times) {
  // Sums of log(decode / cublas): at most 0 where the decode kernel keeps up.
  std::map<int64_t, double> log_ratios;
  for (const PathTimes& one : times) {
    log_ratios[one.m] += std::log(absl::FDivDuration(one.decode, one.cublas));
  }
  int64_t chosen = cuda::kMinDecodeRowsLimit;
  for (const auto& [m, log_ratio] : log_ratios) {
    if (log_ratio > 0) break;
    chosen = m;
  }
  return chosen;
}

absl::StatusOr<Calibration> Calibrate(Measurer* measurer) {
  Calibration calibration;
  calibration.tuning.device = measurer->machine().backend.device;
  for (int bits : kWidths) {
    ASSIGN_OR_RETURN(const std::vector<PathTimes> times,
                     MeasureWidth(bits, measurer));
    calibration.tuning.max_decode_rows[bits - 2] = ChooseMaxDecodeRows(times);
    calibration.times.insert(calibration.times.end(), times.begin(),
                             times.end());
  }
  return calibration;
}

std::string FormatCalibration(const Calibration& calibration) {
  std::string text =
      absl::StrFormat("%4s %6s %6s %5s %10s %10s %14s\n", "bits", "k", "n", "m",
                      "decode us", "cublas us", "decode/cublas");
  for (const PathTimes& one : calibration.times) {
    absl::StrAppendFormat(&text, "%4d %6d %6d %5d %10.1f %10.1f %14.2f\n",
                          one.bits, one.shape.k, one.shape.n, one.m,
                          absl::ToDoubleMicroseconds(one.decode),
                          absl::ToDoubleMicroseconds(one.cublas),
                          absl::FDivDuration(one.decode, one.cublas));
  }
  for (int bits : kWidths) {
    absl::StrAppendFormat(&text, "%d bits: the decode kernel to M = %d\n", bits,
                          calibration.tuning.max_decode_rows[bits - 2]);
  }
  return text;
}

}  // namespace qgemm
