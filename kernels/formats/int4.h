// SPDX-License-Identifier: Apache-2.0
//
// The plain layout of group-wise 4-bit weights (docs/formats.md#int4): codes,
// scales and zeros by rows.

#ifndef QGEMM_KERNELS_FORMATS_INT4_H_
#define QGEMM_KERNELS_FORMATS_INT4_H_

#include <cstdint>
#include <memory>

#include "kernels/formats/weights_decoder.h"
#include "kernels/formats/weights_spec.h"
#include "kernels/matrix/weights.h"

namespace qgemm {

// Codes[k] as ceil(k / 2) bytes, low nibble first; a last high nibble is
// zero.
void PackInt4Row(const uint8_t* codes, int64_t k, uint8_t* bytes);

std::unique_ptr<WeightsDecoder> NewInt4PlainDecoder(const WeightsSpec& spec,
                                                    WeightsSink* sink);

}  // namespace qgemm

#endif  // QGEMM_KERNELS_FORMATS_INT4_H_
