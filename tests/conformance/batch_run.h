// SPDX-License-Identifier: Apache-2.0
//
// One batch of a conformance test: stages operands, enqueues, waits, and
// checks what no backend may do to memory.

#ifndef QGEMM_TESTS_CONFORMANCE_BATCH_RUN_H_
#define QGEMM_TESTS_CONFORMANCE_BATCH_RUN_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "kernels/matrix/backend.h"
#include "kernels/matrix/canonical_weights.h"

namespace qgemm {

// The activations of one request.
struct RequestRows {
  int64_t rows = 0;
  std::vector<uint8_t> a;  // [rows, k]
};

// C of each request of a batch, in order.
using BatchResults = std::vector<std::vector<uint8_t>>;

struct BatchSpec {
  std::shared_ptr<const ResidentWeights> weights;
  MatmulSignature signature;
  std::vector<RequestRows> requests;
  // Value of C's bytes and of those around it before the batch.
  uint8_t poison = 0xa5;
  ExecutionHint hint = ExecutionHint::kAsync;
};

// Used once; must be waited for if Enqueue succeeded.
class BatchRun {
 public:
  BatchRun(Backend* backend, BatchSpec spec);

  absl::Status Enqueue();
  // Waits for the completion. Fails the test if its status is not OK, if A
  // or bytes around C have changed, or if the batch came back as another.
  BatchResults Wait();
  // Completions so far.
  int64_t completions() const;

 private:
  struct Operands {
    StagingLease a;
    StagingLease c;
    int64_t c_bytes = 0;
  };

  void Stage(const RequestRows& request);
  void Complete(absl::Status status, const GemmBatch& batch);
  void CheckMemory(size_t request) const;

  Backend* const backend_;
  BatchSpec spec_;
  GemmBatch batch_;
  std::vector<Operands> operands_;
  mutable Mutex mutex_;
  CondVar completed_;
  int64_t completions_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  int64_t returned_segments_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Enqueues, which must succeed, and waits.
BatchResults RunBatch(Backend* backend, BatchSpec spec);

// `weights` loaded whole, which must succeed.
std::shared_ptr<const ResidentWeights> LoadWhole(
    Backend* backend, const CanonicalWeights& weights);

}  // namespace qgemm

#endif  // QGEMM_TESTS_CONFORMANCE_BATCH_RUN_H_
