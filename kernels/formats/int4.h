// SPDX-License-Identifier: Apache-2.0
//
// Group-wise 4-bit weights (docs/formats.md#int4): the plain layout by rows
// (int4.cc), and those of GPTQ and AWQ checkpoints by input features, eight
// nibbles a word (gptq_awq.cc).

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

std::unique_ptr<WeightsDecoder> NewGptqAwqDecoder(const WeightsSpec& spec,
                                                  WeightsSink* sink);

}  // namespace qgemm

#endif  // QGEMM_KERNELS_FORMATS_INT4_H_
