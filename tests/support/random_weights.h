// SPDX-License-Identifier: Apache-2.0
//
// Random layers in canonical form, one recipe for every kind of layer that a
// wire format decodes to.

#ifndef QGEMM_TESTS_SUPPORT_RANDOM_WEIGHTS_H_
#define QGEMM_TESTS_SUPPORT_RANDOM_WEIGHTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/matrix/canonical_weights.h"
#include "kernels/matrix/weights.h"
#include "tests/support/seeds.h"

namespace qgemm {

// A layer but for its shape.
struct WeightsRecipe {
  std::string name;  // letters, digits and underscores
  // All but n, k, bias, permutation; group_size 0 is all of k.
  WeightsHeader header;
  bool has_bias = false;
  bool has_permutation = false;
  bool has_tensor_scale = false;
  // Every legal k is a multiple of this.
  int64_t k_multiple = 1;
};

// Every kind, each named once: kbit 2 to 5, NF4, a codebook without order or
// symmetry, Q4_0, ternary, int4 of each group size, scale type and zeros,
// act-order, dense fp16 and bf16, with and without bias.
std::vector<WeightsRecipe> AllWeightsRecipes();

// The recipe of that name, which must be there.
WeightsRecipe WeightsRecipeNamed(const std::string& name);

// A layer of that recipe; k must be a multiple of k_multiple.
CanonicalWeights RandomWeights(const WeightsRecipe& recipe, int64_t n,
                               int64_t k, RandomGenerator* random);

}  // namespace qgemm

#endif  // QGEMM_TESTS_SUPPORT_RANDOM_WEIGHTS_H_
