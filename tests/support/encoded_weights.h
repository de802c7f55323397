// SPDX-License-Identifier: Apache-2.0
//
// Random uploads made by the encoders, and the way of an upload's bytes
// through a decoder into a sink.

#ifndef QGEMM_TESTS_SUPPORT_ENCODED_WEIGHTS_H_
#define QGEMM_TESTS_SUPPORT_ENCODED_WEIGHTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kernels/formats/weights_encoder.h"
#include "kernels/matrix/canonical_weights.h"
#include "kernels/matrix/weights.h"
#include "tests/support/seeds.h"

namespace qgemm {

// Format to encode random fp32 weights to.
struct EncodeRecipe {
  std::string name;  // letters, digits and underscores
  EncodeOptions options;
  bool has_bias = false;
  int64_t k_multiple = 1;
};

// Each target of the encoder with its main options.
std::vector<EncodeRecipe> AllEncodeRecipes();

// The recipe of that name, which must be there.
EncodeRecipe EncodeRecipeNamed(const std::string& name);

// Normal weights of a layer, encoded; k must be a multiple of k_multiple.
EncodedWeights RandomEncodedWeights(const EncodeRecipe& recipe, int64_t n,
                                    int64_t k, RandomGenerator* random);

// Decodes an upload into a sink, cut into pieces of up to `piece_bytes`.
absl::Status DecodeInto(const EncodedWeights& encoded, int64_t piece_bytes,
                        WeightsSink* sink);

// The canonical form of an upload, which must be valid.
CanonicalWeights Decode(const EncodedWeights& encoded);

}  // namespace qgemm

#endif  // QGEMM_TESTS_SUPPORT_ENCODED_WEIGHTS_H_
