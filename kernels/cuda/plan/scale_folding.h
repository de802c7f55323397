// SPDX-License-Identifier: Apache-2.0
//
// The powers of two that keep the products of fp16 scales and weights, which
// the prefill kernel makes, within fp16. Pure.

#ifndef QGEMM_KERNELS_CUDA_PLAN_SCALE_FOLDING_H_
#define QGEMM_KERNELS_CUDA_PLAN_SCALE_FOLDING_H_

#include <algorithm>
#include <cmath>

namespace qgemm::cuda {

// Exponents that scales and the entries of the table carry.
struct ScaleFolding {
  int of_scales = 0;  // -14 to 15, as normal fp16 has
  int of_table = 0;
};

// No product overflows, and while all scales are below 2^11 each is rounded
// once, to 11 bits: no factor loses bits below fp16's least. Entries of the
// table, multiples of 1/8 up to 1, are brought to 2^13, and scales, the
// largest, to 1 to 2; what larger scales have above that, entries go without.
// Codes that are numbers, of magnitudes up to 16, have scales up to 2^11.
// `largest_scale` is a magnitude that fp16 has.
inline ScaleFolding FoldingOf(float largest_scale, bool codes_are_numbers) {
  const int largest = largest_scale > 0 ? std::ilogb(largest_scale) : 0;
  if (codes_are_numbers) return {std::clamp(10 - largest, -14, 15), 0};
  return {std::clamp(-largest, 0, 15), 13 - std::max(largest, 0)};
}

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_PLAN_SCALE_FOLDING_H_
