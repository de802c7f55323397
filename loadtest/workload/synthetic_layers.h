// SPDX-License-Identifier: Apache-2.0
//
// Seeded random operands: activations, weights, and many reproducible layers
// made quickly: one of each shape is drawn and quantized, and the others have
// its rows rotated. The same seed makes the same bytes.

#ifndef QGEMM_LOADTEST_WORKLOAD_SYNTHETIC_LAYERS_H_
#define QGEMM_LOADTEST_WORKLOAD_SYNTHETIC_LAYERS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/formats/weights_encoder.h"
#include "kernels/matrix/canonical_weights.h"
#include "kernels/matrix/types.h"

namespace qgemm::loadtest {

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

// Layer number `index` of those with this format, shape and seed.
struct SyntheticLayer {
  std::string format;  // of MakeRandomWeights
  int64_t k = 0;
  int64_t n = 0;
  uint64_t seed = 1;
  int64_t index = 0;
};

// "loadtest/<format>/<K>x<N>/<seed>/<index>", its name on the server: equal
// layers have equal names in every run.
std::string SyntheticName(const SyntheticLayer& layer);

// Row r of the result is row (r + row_shift) mod n of `base`, which
// MakeRandomWeights made: all of its sections but the codebook hold rows of a
// whole number of bytes. `row_shift` is 0 to n - 1.
EncodedWeights RotateRows(const EncodedWeights& base, int64_t row_shift);

// Keeps the layers that it has drawn. The same layer has the same bytes in
// every run; two of one shape have different bytes, unless rows are so short
// that they are equal by chance. Not thread-safe.
class SyntheticLayers {
 public:
  // Errors: INVALID_ARGUMENT (an unknown format, a shape that it does not
  // allow, an index below 0).
  absl::StatusOr<EncodedWeights> Make(const SyntheticLayer& layer);

 private:
  // By the name of the layer of index 0 and the seed that it is drawn from.
  std::map<std::string, EncodedWeights> bases_;
};

}  // namespace qgemm::loadtest

#endif  // QGEMM_LOADTEST_WORKLOAD_SYNTHETIC_LAYERS_H_
