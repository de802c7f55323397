// SPDX-License-Identifier: Apache-2.0
//
// Interface of the backends that run programs (docs/programs.md): a program is
// compiled with its weights once, and then runs batches of rows without coming
// back to its caller between ops.

#ifndef QGEMM_KERNELS_PROGRAMS_PROGRAM_RUNNER_H_
#define QGEMM_KERNELS_PROGRAMS_PROGRAM_RUNNER_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/matrix/backend.h"
#include "kernels/programs/checked_program.h"

namespace qgemm {

// The weights of a program by CheckedProgram::weights_ids().
using WeightsOfProgram = std::vector<std::shared_ptr<const ResidentWeights>>;

// A program as its backend runs it, with the weights that it keeps. Immutable
// and thread-safe; its memory goes back when the last reference goes.
class CompiledProgram {
 public:
  virtual ~CompiledProgram() = default;

  const CheckedProgram& program() const { return *program_; }
  const WeightsOfProgram& weights() const { return weights_; }
  // Memory held for it beside the weights, in bytes.
  virtual int64_t resident_bytes() const = 0;
  // Work of one row, for whoever bounds launches: the multiply-adds of its
  // GEMMs, and for each element of another result as many as take as long.
  int64_t row_multiply_adds() const { return row_multiply_adds_; }

 protected:
  CompiledProgram(std::shared_ptr<const CheckedProgram> program,
                  WeightsOfProgram weights);

 private:
  const std::shared_ptr<const CheckedProgram> program_;
  const WeightsOfProgram weights_;
  int64_t row_multiply_adds_ = 0;
};

// Rows [first, first + rows) of one request inside a batch, which are those of
// each of its inputs and outputs. Both pointers are the request's own: they
// point into staging leases of the backend that runs the batch, start on a
// 64-byte boundary, and have the values one after another, [m, width] each,
// row-major and without gaps. So a value within may start at any byte that its
// elements' size does not divide.
struct ProgramSegment {
  int64_t m = 0;
  int64_t first = 0;
  int64_t rows = 0;
  const uint8_t* inputs = nullptr;
  uint8_t* outputs = nullptr;
};

// Work for one launch: one program, the rows of one or many requests.
struct ProgramBatch {
  std::shared_ptr<const CompiledProgram> program;
  std::vector<ProgramSegment> segments;
  ExecutionHint hint = ExecutionHint::kAsync;
  // Asks for BatchTimings::ops, as many as the program has: ops that run as
  // one have their time at the last of them, the others zero. No bit of the
  // outputs depends on it. A backend may run op by op for it, or cannot tell
  // and leaves the times empty.
  bool time_ops = false;

  int64_t rows() const {
    int64_t sum = 0;
    for (const ProgramSegment& segment : segments) sum += segment.rows;
    return sum;
  }
};

// As BatchCompletion (backend.h): once a batch, after the last write of an
// output.
using ProgramCompletion = absl::AnyInvocable<void(
    absl::Status status, const BatchTimings& timings, ProgramBatch batch)>;

// Part of a Backend, whose weights, leases, limits and failures are its own.
// Thread-safe.
class ProgramRunner {
 public:
  virtual ~ProgramRunner() = default;

  // Makes the program ready to run. `weights` are the backend's own, of the
  // shapes that the program was checked with. Errors: those of CheckSupport for
  // a GEMM, which name the op; RESOURCE_EXHAUSTED.
  virtual absl::StatusOr<std::shared_ptr<const CompiledProgram>> Compile(
      std::shared_ptr<const CheckedProgram> program,
      WeightsOfProgram weights) = 0;

  // Starts the batch as Backend::Enqueue does, in one order with its batches;
  // the program is one that Compile returned. Errors: INVALID_ARGUMENT (no
  // rows, or more than limits().max_batch_rows), failure().
  virtual absl::Status EnqueueProgram(ProgramBatch batch,
                                      ProgramCompletion completion) = 0;
};

// Checks that every runner makes, with one wording.

// OK if `backend` computes each GEMM of the program with its weights, else the
// error of CheckSupport behind the op. `weights` are as many as the program's.
absl::Status CheckProgramSupport(const Backend& backend,
                                 const CheckedProgram& program,
                                 const WeightsOfProgram& weights);

// UNIMPLEMENTED, behind the op, if a TOP_K finds more than `max_k` elements.
absl::Status CheckTopK(absl::string_view backend, const CheckedProgram& program,
                       int64_t max_k);

// INVALID_ARGUMENT if the batch has no program, no rows, a segment that is no
// part of its request or has no operands, or more than `max_rows` rows in all.
absl::Status CheckProgramBatch(const ProgramBatch& batch, int64_t max_rows);

}  // namespace qgemm

#endif  // QGEMM_KERNELS_PROGRAMS_PROGRAM_RUNNER_H_
