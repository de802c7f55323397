// SPDX-License-Identifier: Apache-2.0
//
// Arrivals as somebody recorded them: a text file of offsets. Parsing only;
// reading the file is the caller's.

#ifndef QGEMM_LOADTEST_SCHEDULE_ARRIVAL_TRACE_H_
#define QGEMM_LOADTEST_SCHEDULE_ARRIVAL_TRACE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace qgemm {

struct ArrivalTrace {
  std::vector<absl::Duration> offsets;  // ascending, 0 or more; not empty

  absl::Duration length() const { return offsets.back(); }
  // Arrivals/s from the start to the last arrival; 0 if all are at the start.
  double mean_rate() const;
};

// One offset a line, in seconds as a decimal number, none below the one before
// it. What follows a '#' is a comment; empty lines are skipped.
// Errors: INVALID_ARGUMENT that names the line and what is legal.
absl::StatusOr<ArrivalTrace> ParseArrivalTrace(absl::string_view text);

// What offsets are to be multiplied by for a mean of `rate` arrivals/s.
// Errors: INVALID_ARGUMENT if its arrivals are all at the start.
absl::StatusOr<double> TimeScaleFor(const ArrivalTrace& trace, double rate);

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_SCHEDULE_ARRIVAL_TRACE_H_
