// SPDX-License-Identifier: Apache-2.0
//
// Which kinds of layers the prefill kernel is for.

#ifndef QGEMM_TESTS_KERNELS_CUDA_PREFILL_RECIPES_H_
#define QGEMM_TESTS_KERNELS_CUDA_PREFILL_RECIPES_H_

#include <vector>

#include "tests/support/random_weights.h"

namespace qgemm::cuda {

// One for every kernel at least, also those that no wire format decodes to.
std::vector<WeightsRecipe> PrefillRecipes();

// Quantized layers that it is not for.
std::vector<WeightsRecipe> OtherRecipes();

}  // namespace qgemm::cuda

#endif  // QGEMM_TESTS_KERNELS_CUDA_PREFILL_RECIPES_H_
