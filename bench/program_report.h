// SPDX-License-Identifier: Apache-2.0
//
// Output of the kernel bench's programs: a line a number of rows for people,
// versioned JSON for scripts.

#ifndef QGEMM_BENCH_PROGRAM_REPORT_H_
#define QGEMM_BENCH_PROGRAM_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "bench/program_bench.h"
#include "kernels/matrix/backend.h"

namespace qgemm {

// One program over weights of one format.
struct MeasuredProgram {
  std::string name;
  std::string format;         // that weights have whose format is not given
  int64_t weights_bytes = 0;  // resident, of one copy
  int copies = 0;             // of the weights, visited in turn
  std::vector<ProgramTimes> times;
};

// Time of all products over that of the program: from Enqueue to the end, and
// of the kernels. 0 if the backend does not time them.
double ProductsRatio(const ProgramTimes& times);
double KernelRatio(const ProgramTimes& times);

// The lines above a program's, and those of one number of rows.
std::string ProgramHead(const BackendDescription& backend,
                        const MeasuredProgram& measured);
std::string ProgramLine(const MeasuredProgram& measured,
                        const ProgramTimes& times);

// The whole run (bench/README.md names the fields).
std::string ProgramsToJson(const BackendDescription& backend,
                           const std::vector<MeasuredProgram>& measured);

}  // namespace qgemm

#endif  // QGEMM_BENCH_PROGRAM_REPORT_H_
