// SPDX-License-Identifier: Apache-2.0
//
// Compares answers of one layer with fp64, element by element.

#ifndef QGEMM_LOADTEST_VERIFY_FP64_CHECK_H_
#define QGEMM_LOADTEST_VERIFY_FP64_CHECK_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "loadtest/report/loadtest_report.h"
#include "kernels/matrix/canonical_weights.h"
#include "kernels/matrix/types.h"

namespace qgemm {

// An answer and what was asked.
struct AnsweredRequest {
  std::string name;  // for messages: "input 3 of m=16"
  int64_t m = 0;
  std::vector<uint8_t> a;                // [m, k] of the signature's a_type
  std::shared_ptr<const std::string> c;  // [m, n] of its c_type
};

// How much is compared of a layer.
struct Fp64Budget {
  double multiply_adds = 0;  // at most, by sampling columns; 0: all
  uint64_t seed = 0;         // which columns a sample takes
};

// Adds what it finds to `report`: elements, the worst error, the first fault.
void CheckAgainstFp64(const CanonicalWeights& weights,
                      const MatmulSignature& signature,
                      const std::vector<AnsweredRequest>& answers,
                      const Fp64Budget& budget, VerifyReport* report);

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_VERIFY_FP64_CHECK_H_
