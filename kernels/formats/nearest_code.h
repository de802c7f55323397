// SPDX-License-Identifier: Apache-2.0
//
// Finds the codebook entry nearest to each of many values, with the ties of a
// linear search.

#ifndef QGEMM_KERNELS_FORMATS_NEAREST_CODE_H_
#define QGEMM_KERNELS_FORMATS_NEAREST_CODE_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace qgemm {

// The first index that minimises |v - codebook[i]| in fp32, for values in
// [-1, 1]. Immutable and thread-safe.
class NearestCode {
 public:
  // Finite values in any order, at most 256.
  explicit NearestCode(absl::Span<const float> codebook);

  // 32 codes of 32 values.
  void Find32(const float* values, uint8_t* codes) const;

 private:
  const std::vector<float> codebook_;
  // codes_[j] is the code of values above exactly j thresholds. Both are
  // empty if entries lie so close that rounding decides between them.
  std::vector<float> thresholds_;
  std::vector<uint8_t> codes_;
};

}  // namespace qgemm

#endif  // QGEMM_KERNELS_FORMATS_NEAREST_CODE_H_
