// SPDX-License-Identifier: Apache-2.0
//
// Codebooks that belong to formats: kbit's defaults, and the integers.

#ifndef QGEMM_KERNELS_FORMATS_CODEBOOKS_H_
#define QGEMM_KERNELS_FORMATS_CODEBOOKS_H_

#include <vector>

namespace qgemm {

// kbit's default of 2^bits values, ascending: quantiles of the standard
// normal divided by the largest. `bits` is 2, 3, 4 or 5.
std::vector<float> DefaultKbitCodebook(int bits);

// first, first + 1, ... : 16 values.
std::vector<float> LinearCodebook16(int first);

}  // namespace qgemm

#endif  // QGEMM_KERNELS_FORMATS_CODEBOOKS_H_
