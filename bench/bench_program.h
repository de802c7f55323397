// SPDX-License-Identifier: Apache-2.0
//
// Programs that the kernel bench measures, with the weights that they name:
// those of known models, and any as text. Pure values; measuring is in
// program_bench.h.

#ifndef QGEMM_BENCH_BENCH_PROGRAM_H_
#define QGEMM_BENCH_BENCH_PROGRAM_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/bench_case.h"
#include "kernels/programs/checked_program.h"
#include "kernels/programs/program.h"

namespace qgemm {

struct BenchProgram {
  std::string name;  // in reports
  Program program;
  // By the names that the program has for them: format and shape count.
  std::map<std::string, BenchCase> weights;
};

// "llama3-8b-layer", "llama3-8b-head", …: the programs of the load test's
// --program_walk.
std::vector<std::string> KnownPrograms();

// A known program over weights of `format`. Errors: NOT_FOUND;
// INVALID_ARGUMENT (an unknown format).
absl::StatusOr<BenchProgram> KnownProgram(const std::string& name,
                                          const std::string& format);

// A program as `qgemm program load` takes it, with what a server knows and the
// text does not say.
struct ProgramSource {
  std::string name;  // in reports
  std::string text;  // a qgemm.v1.Program in Protobuf's text format
  // --program_weights: "up=4096x14336,down=14336x4096:q4_0": K x N of each
  // name in the program; `format` where a piece has none.
  std::string weights;
  std::string format;
  // --program_constants: "norm=4096": widths of constants without values, which
  // become ones.
  std::string constants;
};

// Errors: INVALID_ARGUMENT that names the option and its wrong piece, or the
// place in the text.
absl::StatusOr<BenchProgram> ParseBenchProgram(const ProgramSource& source);

// The program, checked against its weights, whose ids are their names.
// Errors: those of CheckProgram.
absl::StatusOr<CheckedProgram> Check(const BenchProgram& program);

}  // namespace qgemm

#endif  // QGEMM_BENCH_BENCH_PROGRAM_H_
