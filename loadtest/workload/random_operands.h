// SPDX-License-Identifier: Apache-2.0
//
// Seeded random operands: weights that the load test uploads, activations that
// it multiplies. The same seed makes the same bytes.

#ifndef QGEMM_LOADTEST_WORKLOAD_RANDOM_OPERANDS_H_
#define QGEMM_LOADTEST_WORKLOAD_RANDOM_OPERANDS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "loadtest/workload/synthetic_shape.h"
#include "kernels/formats/weights_encoder.h"
#include "kernels/matrix/canonical_weights.h"
#include "kernels/matrix/types.h"

namespace qgemm {

// Normal weights (normal_values.h) of standard deviation 0.02, in `format`:
// kbit2 to kbit5, q4_0, ternary, int4, int4-asymmetric, fp16 or bf16. Draws and
// quantizes a few rows at a time: needs little memory beside the result.
// Errors: INVALID_ARGUMENT (unknown format, a shape that it does not allow).
absl::StatusOr<EncodedWeights> MakeRandomWeights(absl::string_view format,
                                                 const SyntheticShape& shape,
                                                 uint64_t seed);

// The canonical form that a server makes of the upload.
absl::StatusOr<CanonicalWeights> DecodeWeights(const EncodedWeights& weights);

// `elements` standard normal values (normal_values.h) of `type`.
std::vector<uint8_t> MakeRandomActivations(FloatType type, int64_t elements,
                                           uint64_t seed);

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_WORKLOAD_RANDOM_OPERANDS_H_
