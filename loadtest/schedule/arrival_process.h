// SPDX-License-Identifier: Apache-2.0
//
// How arrivals scatter around their rate, as --arrivals says it. Drawing them
// is in unit_gaps.h and arrivals.h.

#ifndef QGEMM_LOADTEST_SCHEDULE_ARRIVAL_PROCESS_H_
#define QGEMM_LOADTEST_SCHEDULE_ARRIVAL_PROCESS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace qgemm {

enum class ArrivalKind : uint8_t {
  kConstant,  // equal gaps
  kPoisson,   // exponential gaps: callers that know nothing of each other
  kGamma,     // gaps more even (variation < 1) or burstier (> 1) than those
  kTrace,     // at the offsets that a file lists
};

// Coefficients of variation that gamma gaps may have.
inline constexpr double kMinVariation = 0.1;
inline constexpr double kMaxVariation = 10;

struct ArrivalProcess {
  ArrivalKind kind = ArrivalKind::kPoisson;
  // kGamma: standard deviation of the gaps over their mean, within
  // kMinVariation..kMaxVariation.
  double variation = 1;
  std::string trace_path;  // kTrace
};

// "constant", "poisson", "gamma:CV" or "trace:FILE".
// Errors: INVALID_ARGUMENT that names --arrivals, its value and what is legal.
absl::StatusOr<ArrivalProcess> ParseArrivalProcess(absl::string_view text);

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_SCHEDULE_ARRIVAL_PROCESS_H_
