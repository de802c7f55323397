// SPDX-License-Identifier: Apache-2.0
//
// Codebooks: kbit's defaults, the integers, and the search for the entry
// nearest to a value.

#ifndef QGEMM_KERNELS_FORMATS_CODEBOOKS_H_
#define QGEMM_KERNELS_FORMATS_CODEBOOKS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace qgemm {

// kbit's default of 2^bits values, ascending: quantiles of the standard
// normal divided by the largest. `bits` is 2, 3, 4 or 5.
std::vector<float> DefaultKbitCodebook(int bits);

// first, first + 1, ... : 16 values.
std::vector<float> LinearCodebook16(int first);

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

#endif  // QGEMM_KERNELS_FORMATS_CODEBOOKS_H_
