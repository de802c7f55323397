// SPDX-License-Identifier: Apache-2.0
//
// Times both families at every M, then chooses by code width.

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

absl::StatusOr<FamilyTimes> MeasureFamilies(BenchCase one, int bits,
                                            Measurer* measurer) {
  one.kernel = KernelChoice::kSmall;
  ASSIGN_OR_RETURN(const CaseResult small, measurer->Measure(one));
  one.kernel = KernelChoice::kLarge;
  ASSIGN_OR_RETURN(const CaseResult large, measurer->Measure(one));
  return FamilyTimes{bits, one.shape, one.m, small.median, large.median};
}

absl::StatusOr<std::vector<FamilyTimes>> MeasureWidth(int bits,
                                                      Measurer* measurer) {
  std::vector<FamilyTimes> times;
  BenchCase one;
  one.format = absl::StrCat("kbit", bits);
  for (const BenchShape& shape : kShapes) {
    one.shape = shape;
    for (int64_t m : kRows) {
      one.m = m;
      ASSIGN_OR_RETURN(const FamilyTimes both,
                       MeasureFamilies(one, bits, measurer));
      times.push_back(both);
    }
  }
  return times;
}

}  // namespace

int64_t ChooseMaxSmallRows(absl::Span<const FamilyTimes> times) {
  // Sums of log(small / large): at most 0 where the small family keeps up.
  std::map<int64_t, double> log_ratios;
  for (const FamilyTimes& one : times) {
    log_ratios[one.m] += std::log(absl::FDivDuration(one.small, one.large));
  }
  int64_t chosen = cuda::kMinSmallRowsLimit;
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
    ASSIGN_OR_RETURN(const std::vector<FamilyTimes> times,
                     MeasureWidth(bits, measurer));
    calibration.tuning.max_small_rows[bits - 2] = ChooseMaxSmallRows(times);
    calibration.times.insert(calibration.times.end(), times.begin(),
                             times.end());
  }
  return calibration;
}

std::string FormatCalibration(const Calibration& calibration) {
  std::string text =
      absl::StrFormat("%4s %6s %6s %5s %10s %10s %12s\n", "bits", "k", "n", "m",
                      "small us", "large us", "small/large");
  for (const FamilyTimes& one : calibration.times) {
    absl::StrAppendFormat(&text, "%4d %6d %6d %5d %10.1f %10.1f %12.2f\n",
                          one.bits, one.shape.k, one.shape.n, one.m,
                          absl::ToDoubleMicroseconds(one.small),
                          absl::ToDoubleMicroseconds(one.large),
                          absl::FDivDuration(one.small, one.large));
  }
  for (int bits : kWidths) {
    absl::StrAppendFormat(&text, "%d bits: the small family to M = %d\n", bits,
                          calibration.tuning.max_small_rows[bits - 2]);
  }
  return text;
}

}  // namespace qgemm
