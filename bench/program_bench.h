// SPDX-License-Identifier: Apache-2.0
//
// Measures a program through a Backend beside its products alone, one launch at
// a time, in turn: both read the same rotating copies of the weights, so that
// none comes from a cache.

#ifndef QGEMM_BENCH_PROGRAM_BENCH_H_
#define QGEMM_BENCH_PROGRAM_BENCH_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "bench/bench_program.h"
#include "bench/case_runner.h"
#include "kernels/matrix/backend.h"
#include "kernels/programs/program_runner.h"

namespace qgemm {

// Times of single launches: from Enqueue until the completion's thread has
// woken the caller. Medians, but for the extremes.
struct LaunchTimes {
  absl::Duration median;
  absl::Duration fastest;
  absl::Duration slowest;
  absl::Duration kernel;  // as the backend timed it
};

// A GEMM of the program alone, as a Gemm of the same rows.
struct ProductTimes {
  int64_t op = 0;  // its place in the program
  BenchCase weights;
  LaunchTimes times;
};

struct ProgramTimes {
  int64_t m = 0;
  LaunchTimes program;
  // All products, one after the other: sums over a pass.
  LaunchTimes all_products;
  std::vector<ProductTimes> products;
  int launches = 0;  // of the program, and of each product
};

// Used by one thread at a time.
class ProgramBench {
 public:
  // Makes as many copies of the weights as `options` ask for, and compiles the
  // program over each. `backend` must outlive it. Errors: UNIMPLEMENTED (the
  // backend runs no programs); those of the check, of loading and of compiling.
  static absl::StatusOr<std::unique_ptr<ProgramBench>> Create(
      Backend* backend, const BenchProgram& program,
      const RotationOptions& options);

  // Times the program and its products on `m` rows of random inputs.
  // Errors: those of enqueueing, as for more rows than the backend takes.
  absl::StatusOr<ProgramTimes> Run(int64_t m);

  int64_t weights_bytes() const { return weights_bytes_; }  // of one copy
  int copies() const { return static_cast<int>(copies_.size()); }

 private:
  ProgramBench(Backend* backend, const BenchProgram& program,
               const RotationOptions& options,
               std::shared_ptr<const CheckedProgram> checked);

  absl::Status LoadCopy(uint64_t seed);
  std::shared_ptr<const CompiledProgram> NextCopy();

  Backend* const backend_;
  const BenchProgram named_;
  const RotationOptions options_;
  const std::shared_ptr<const CheckedProgram> checked_;
  int64_t weights_bytes_ = 0;
  std::vector<std::shared_ptr<const CompiledProgram>> copies_;
  size_t next_copy_ = 0;
};

}  // namespace qgemm

#endif  // QGEMM_BENCH_PROGRAM_BENCH_H_
