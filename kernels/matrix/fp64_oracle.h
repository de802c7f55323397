// SPDX-License-Identifier: Apache-2.0
//
// The exact result of a multiplication: C = A * W^T + bias in fp64 over
// canonical weights, and how far from it an answer may lie, element by element.
// The oracle of every test and of client-side verification; never a product
// path.

#ifndef QGEMM_KERNELS_MATRIX_FP64_ORACLE_H_
#define QGEMM_KERNELS_MATRIX_FP64_ORACLE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/matrix/canonical_weights.h"
#include "kernels/matrix/types.h"

namespace qgemm {

// Columns of C to compute: first, first + stride, ... below n. A stride
// above 1 samples a layer too large to check whole.
struct OracleColumns {
  int64_t first = 0;
  int64_t stride = 1;
};

// The sampled columns of C, row-major: element (i, j) is C[i, columns[j]].
struct OracleProduct {
  int64_t rows = 0;
  std::vector<int64_t> columns;
  std::vector<double> values;
  // sum over k of |a * w|, plus |bias|: what errors are relative to.
  std::vector<double> magnitudes;
};

// The activations a[m, k] as the signature's mode defines them, in fp64:
// fp32 rounded once (A16), quantized to Q8_1 and back (A8), as they are
// (A32). A Q8_1 block that holds a value that is not finite is NaN whole.
std::vector<double> EffectiveActivations(const MatmulSignature& signature,
                                         absl::Span<const uint8_t> a, int64_t m,
                                         int64_t k);

// C in fp64. `a` holds [m, k] elements of the signature's a_type. A row's
// values do not depend on the other rows.
OracleProduct Fp64Matmul(const CanonicalWeights& weights,
                         const MatmulSignature& signature,
                         absl::Span<const uint8_t> a, int64_t m,
                         const OracleColumns& columns = {});

// The largest error that a backend may make before it rounds the output, as
// a fraction of the element's magnitude. Derived in fp64_oracle.cc.
double RelativeErrorBound(const WeightsHeader& header,
                          const MatmulSignature& signature);

// The values that an output element may take: all between low and high,
// which already are rounded to the output's type.
struct ElementRange {
  double low = 0;
  double high = 0;
};

// The range around a finite `value` for an error of `bound` (absolute), then
// one rounding to `c_type`.
ElementRange ToleranceRange(double value, double bound, FloatType c_type);

// One compared element.
struct OracleElement {
  int64_t row = 0;
  int64_t column = 0;
  double expected = 0;
  double actual = 0;
  double tolerance = 0;  // of |actual - expected|
  double ratio = 0;      // of both; at most 1 is a pass
};

// Fills in tolerance and ratio of an element whose finite `expected` may be
// wrong by `bound` before it is rounded to `type`.
void JudgeElement(double bound, FloatType type, OracleElement* element);

struct OracleReport {
  int64_t compared = 0;
  // The largest |actual - expected| / tolerance; infinite where one is NaN
  // or infinite and the other is not likewise. At most 1 is a pass.
  double worst_ratio = 0;
  // Position and value of that element.
  int64_t row = 0;
  int64_t column = 0;
  double expected = 0;
  double actual = 0;
  double tolerance = 0;
  // ||actual - expected|| / ||expected|| over elements expected finite.
  double relative_norm = 0;

  // Counts the element, which may be the worst.
  void Add(const OracleElement& element);
  bool passed() const { return worst_ratio <= 1; }
  // OK, or DATA_LOSS that names the worst element.
  absl::Status ToStatus() const;
};

// Compares an answer c[rows, n] of the signature's c_type with the oracle.
// Any NaN or infinity passes for Q8_1 activations that are not finite.
OracleReport CompareWithOracle(const OracleProduct& oracle,
                               const WeightsHeader& header,
                               const MatmulSignature& signature,
                               absl::Span<const uint8_t> c);

}  // namespace qgemm

#endif  // QGEMM_KERNELS_MATRIX_FP64_ORACLE_H_
