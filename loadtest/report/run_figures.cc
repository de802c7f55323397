// SPDX-License-Identifier: Apache-2.0
//
// Divisions and medians.

#include "loadtest/report/run_figures.h"

namespace qgemm {
namespace {

double MedianMicroseconds(const Histogram& nanoseconds) {
  return MicrosecondsOf(static_cast<double>(nanoseconds.Percentile(50)));
}

}  // namespace

double MicrosecondsOf(double nanoseconds) { return nanoseconds / 1000; }

double CpuMicrosecondsAnAnswer(absl::Duration cpu, int64_t answers) {
  if (answers <= 0) return 0;
  return absl::ToDoubleMicroseconds(cpu) / static_cast<double>(answers);
}

YardstickMedians MediansOf(const Yardstick& yardstick) {
  YardstickMedians medians;
  medians.echo_us = MedianMicroseconds(yardstick.echo_ns);
  medians.device_us = MedianMicroseconds(yardstick.device_ns);
  medians.round_trip_us = MedianMicroseconds(yardstick.gemm_ns);
  if (!yardstick.echo_ns.empty() && !yardstick.device_ns.empty() &&
      !yardstick.gemm_ns.empty()) {
    medians.overhead_us =
        medians.round_trip_us - medians.echo_us - medians.device_us;
  }
  return medians;
}

}  // namespace qgemm
