// SPDX-License-Identifier: Apache-2.0
//
// Checks the answers of a load test: the same input gives the same bits every
// time, and those bits lie within the tolerance of fp64. The first is checked
// as answers come, the second after the run, so that it costs no measured
// time.

#ifndef QGEMM_CLIENT_LOADTEST_ANSWER_CHECKER_H_
#define QGEMM_CLIENT_LOADTEST_ANSWER_CHECKER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "client/loadtest/closed_loop_runner.h"
#include "client/loadtest/options.h"
#include "kernels/matrix/canonical_weights.h"
#include "kernels/matrix/types.h"

namespace qgemm {

// What the fp64 oracle needs to know.
struct OracleInputs {
  const CanonicalWeights& weights;
  MatmulSignature signature;
  int64_t m = 0;  // rows of each input
  // A of each input, [m, k] of the signature's a_type.
  absl::Span<const std::vector<uint8_t>> inputs;
  uint64_t seed = 0;  // which columns a sample takes
};

struct VerifyReport {
  int64_t answers_compared = 0;     // with the first answer to their input
  int64_t answers_different = 0;    // whose bits were others
  int64_t elements_checked = 0;     // against fp64
  double worst_tolerance_used = 0;  // largest error / tolerance; above 1: wrong
  absl::Status status;              // the first thing found wrong
};

// kSample looks at each worker's first answer and every 16th after it, and
// checks about 2^28 multiply-adds against fp64; kAll looks at every answer
// and checks every element of one answer to each input. Thread-safe.
class AnswerChecker final : public AnswerObserver {
 public:
  // Keeps one answer of each of `inputs` inputs.
  AnswerChecker(VerifyMode mode, int64_t inputs);

  void OnAnswer(int64_t input, int64_t sequence, absl::string_view c) override;

  // What OnAnswer found; no oracle.
  VerifyReport CompareBits() const;
  // That, and the kept answers against fp64. To be called after the run.
  VerifyReport CompareWithFp64(const OracleInputs& oracle) const;

 private:
  const VerifyMode mode_;
  mutable Mutex mutex_;
  // By input; null until its first answer. The strings never change.
  std::vector<std::shared_ptr<const std::string>> first_answers_
      ABSL_GUARDED_BY(mutex_);
  VerifyReport report_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace qgemm

#endif  // QGEMM_CLIENT_LOADTEST_ANSWER_CHECKER_H_
