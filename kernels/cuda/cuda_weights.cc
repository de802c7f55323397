// SPDX-License-Identifier: Apache-2.0
//
// What remains of a header.

#include "kernels/cuda/cuda_weights.h"

namespace qgemm::cuda {

CudaWeightsTraits TraitsOf(const WeightsHeader& header) {
  CudaWeightsTraits traits;
  traits.dense = header.kind == WeightsHeader::Kind::kDense;
  traits.dense_type = header.dense_type;
  traits.has_bias = !header.bias.empty();
  traits.has_permutation = !header.permutation.empty();
  if (traits.dense) return traits;
  traits.bits = header.bits;
  traits.scale_type = header.scale_type;
  traits.has_zeros = header.has_zeros;
  traits.integer_codes = header.integer_codes;
  traits.supports_a8 = header.supports_a8;
  return traits;
}

}  // namespace qgemm::cuda
