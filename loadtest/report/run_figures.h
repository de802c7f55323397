// SPDX-License-Identifier: Apache-2.0
//
// Figures that the table, the JSON and the comparison derive from what a run
// measured.

#ifndef QGEMM_LOADTEST_REPORT_RUN_FIGURES_H_
#define QGEMM_LOADTEST_REPORT_RUN_FIGURES_H_

#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "loadtest/report/loadtest_report.h"

namespace qgemm {

double MicrosecondsOf(double nanoseconds);

// Processor time an answer; 0 if there was none.
double CpuMicrosecondsAnAnswer(absl::Duration cpu, int64_t answers);

struct YardstickMedians {
  double echo_us = 0;
  double device_us = 0;
  double round_trip_us = 0;
  // The round trip without the echo and the device: what the service itself
  // costs. Absent if one of the three was not measured.
  std::optional<double> overhead_us;
};
YardstickMedians MediansOf(const Yardstick& yardstick);

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_REPORT_RUN_FIGURES_H_
