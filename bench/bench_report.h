// SPDX-License-Identifier: Apache-2.0
//
// Output of the kernel bench: a line for each case for people, versioned JSON
// for scripts.

#ifndef QGEMM_BENCH_BENCH_REPORT_H_
#define QGEMM_BENCH_BENCH_REPORT_H_

#include <optional>
#include <string>
#include <vector>

#include "bench/bench_case.h"
#include "bench/measurer.h"

namespace qgemm {

struct MeasuredCase {
  BenchCase bench_case;
  CaseResult result;
};

struct BenchReport {
  BenchMachine machine;
  ReadRoof roof;
  std::optional<MultiplyPeaks> peaks;
  std::vector<MeasuredCase> measured;
};

// The bound that a case is nearer to, and its share of it.
struct Bound {
  const char* name;  // "read", "fp32", "int8" or "bf16"
  double fraction;
};
// Only of a report with peaks.
Bound BoundOf(const BenchReport& report, const MeasuredCase& measured);

// cuBLAS's time over ours. Only of a case with a figure of cuBLAS.
double SpeedupVsCublas(const CaseResult& result);

// The lines above the cases.
std::string TableHead(const BenchReport& report);

// One case as a line; the roof and the columns are the report's.
std::string TableLine(const BenchReport& report, const MeasuredCase& measured);

// The whole run (bench/README.md names the fields).
std::string ToJson(const BenchReport& report);

}  // namespace qgemm

#endif  // QGEMM_BENCH_BENCH_REPORT_H_
