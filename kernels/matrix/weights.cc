// SPDX-License-Identifier: Apache-2.0
//
// The scalars that follow from a header.

#include "kernels/matrix/weights.h"

namespace qgemm {
namespace {

bool IsTernary(const std::vector<float>& codebook) {
  return codebook.size() == 4 && codebook[0] == -1 && codebook[1] == 0 &&
         codebook[2] == 1 && codebook[3] == 0;
}

}  // namespace

WeightsShape::WeightsShape(const WeightsHeader& header)
    : dense(header.kind == WeightsHeader::Kind::kDense),
      n(header.n),
      k(header.k),
      has_bias(!header.bias.empty()),
      has_permutation(!header.permutation.empty()),
      dense_type(header.dense_type) {
  if (dense) return;
  bits = header.bits;
  group_size = header.group_size;
  scale_type = header.scale_type;
  has_zeros = header.has_zeros;
  integer_codes = header.integer_codes;
  supports_a8 = header.supports_a8;
  ternary_codes = IsTernary(header.codebook);
}

}  // namespace qgemm
