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

// Scales are brought to 1 to 2, the largest, and entries of the table, at most
// 1, to 2^13: no product overflows, and one of more than 2^-28 of the largest
// is normal. Codes that are numbers, of magnitudes up to 31, have scales up to
// 2^10 instead. `largest_scale` is a magnitude that fp16 has.
inline ScaleFolding FoldingOf(float largest_scale, bool codes_are_numbers) {
  const int largest = largest_scale > 0 ? std::ilogb(largest_scale) : 0;
  const int of_scales =
      std::clamp((codes_are_numbers ? 9 : 0) - largest, -14, 15);
  return {of_scales, codes_are_numbers ? 0 : 13};
}

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_PLAN_SCALE_FOLDING_H_
