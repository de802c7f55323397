// SPDX-License-Identifier: Apache-2.0
//
// Ternary weights on the wire (docs/formats.md#ternary). Canonical codes are
// weight + 1.

#ifndef QGEMM_KERNELS_FORMATS_TERNARY_H_
#define QGEMM_KERNELS_FORMATS_TERNARY_H_

#include <cstdint>
#include <memory>

#include "kernels/formats/weights_decoder.h"
#include "kernels/formats/weights_spec.h"
#include "kernels/matrix/weights.h"

namespace qgemm {

// Bytes of a row of k weights.
int64_t TernaryRowBytes(TernaryCoding coding, int64_t k);

// Codes[k], each 0, 1 or 2, as the bytes of a row. Padding bits are zero.
void PackTernaryRow(TernaryCoding coding, const uint8_t* codes, int64_t k,
                    uint8_t* bytes);

std::unique_ptr<WeightsDecoder> NewTernaryDecoder(const WeightsSpec& spec,
                                                  WeightsSink* sink);

}  // namespace qgemm

#endif  // QGEMM_KERNELS_FORMATS_TERNARY_H_
