// SPDX-License-Identifier: Apache-2.0
//
// Seeded random operands: weights for uploads, activations for requests. The
// same seed makes the same bytes.

#ifndef QGEMM_LOADTEST_WORKLOAD_RANDOM_OPERANDS_H_
#define QGEMM_LOADTEST_WORKLOAD_RANDOM_OPERANDS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/formats/weights_encoder.h"
#include "kernels/matrix/canonical_weights.h"
#include "kernels/matrix/types.h"
#include "loadtest/schedule/random_bits.h"

namespace qgemm::loadtest {

// Independent values by the hundred million a second, each one of 65536 with
// equal probability: the quantiles (i + 1/2) / 65536 of the standard normal
// distribution. Their mean is 0, their standard deviation 1 to within 10^-4,
// and none is beyond 4.4: good enough for data to multiply, too coarse for
// statistics of rare events. Not thread-safe.
class NormalValues {
 public:
  explicit NormalValues(uint64_t seed) : random_(seed) {}

  // Overwrites `values` with the next ones, times `deviation`.
  void Fill(float deviation, absl::Span<float> values);

 private:
  RandomBits random_;
};

// W [n, k]: normal weights of standard deviation 0.02, in `format`: kbit2 to
// kbit5, q4_0, ternary, int4, int4-asymmetric, fp16 or bf16. Draws and
// quantizes a few rows at a time: needs little memory beside the result.
// Errors: INVALID_ARGUMENT (unknown format, a shape that it does not allow).
absl::StatusOr<EncodedWeights> MakeRandomWeights(absl::string_view format,
                                                 int64_t k, int64_t n,
                                                 uint64_t seed);

// The canonical form that a server makes of the upload.
absl::StatusOr<CanonicalWeights> DecodeWeights(const EncodedWeights& weights);

// `elements` standard normal values of `type`.
std::vector<uint8_t> MakeRandomActivations(FloatType type, int64_t elements,
                                           uint64_t seed);

}  // namespace qgemm::loadtest

#endif  // QGEMM_LOADTEST_WORKLOAD_RANDOM_OPERANDS_H_
