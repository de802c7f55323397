// SPDX-License-Identifier: Apache-2.0
//
// One batch of a program in a conformance test: stages operands, enqueues,
// waits, and checks what no backend may do to memory.

#ifndef QGEMM_TESTS_CONFORMANCE_PROGRAM_RUN_H_
#define QGEMM_TESTS_CONFORMANCE_PROGRAM_RUN_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "kernels/matrix/backend.h"
#include "kernels/matrix/canonical_weights.h"
#include "kernels/programs/program_runner.h"

namespace qgemm {

// Rows [first, first + rows) of a request.
struct RequestPart {
  int64_t first = 0;
  int64_t rows = 0;
};

struct ProgramRequest {
  int64_t m = 0;
  std::vector<uint8_t> inputs;  // one behind the other, [m, width] each
  // The parts of it in the batch, a segment each; empty: all of it is one.
  std::vector<RequestPart> parts;
};

struct ProgramSpec {
  std::shared_ptr<const CompiledProgram> program;
  std::vector<ProgramRequest> requests;
  // Value of the outputs' bytes and of those around them before the batch.
  uint8_t poison = 0xa5;
  bool time_ops = false;
};

// Outputs of each request of a batch: one behind the other, [m, width] each,
// rows that are in no part as they were.
using ProgramResults = std::vector<std::vector<uint8_t>>;

// Used once; must be waited for if Enqueue succeeded.
class ProgramRun {
 public:
  ProgramRun(Backend* backend, ProgramSpec spec);

  absl::Status Enqueue();
  // Waits for the completion. Fails the test if its status is not OK, if inputs
  // or bytes around the batch's rows have changed, or if the batch came back as
  // another.
  ProgramResults Wait();
  // Completions so far.
  int64_t completions() const;
  // The times of ops that the completion had; after Wait.
  std::vector<absl::Duration> op_times() const;

 private:
  struct Operands {
    StagingLease inputs;
    StagingLease outputs;
    int64_t outputs_bytes = 0;
  };

  void Stage(ProgramRequest* request);
  void Complete(absl::Status status, const BatchTimings& timings,
                const ProgramBatch& batch);
  void CheckMemory(size_t request) const;
  void CheckOtherRows(const ProgramRequest& request,
                      const uint8_t* outputs) const;

  Backend* const backend_;
  ProgramSpec spec_;
  ProgramBatch batch_;
  std::vector<Operands> operands_;
  int64_t segments_ = 0;
  mutable Mutex mutex_;
  CondVar completed_;
  int64_t completions_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  int64_t returned_segments_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<absl::Duration> op_times_ ABSL_GUARDED_BY(mutex_);
};

// Enqueues, which must succeed, and waits.
ProgramResults RunProgram(Backend* backend, ProgramSpec spec);

// `program` compiled with `weights`, which are loaded for it, one of each of
// its weights_ids().
absl::StatusOr<std::shared_ptr<const CompiledProgram>> LoadAndCompile(
    Backend* backend, const CheckedProgram& program,
    absl::Span<const CanonicalWeights* const> weights);

}  // namespace qgemm

#endif  // QGEMM_TESTS_CONFORMANCE_PROGRAM_RUN_H_
