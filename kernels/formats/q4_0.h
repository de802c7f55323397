// SPDX-License-Identifier: Apache-2.0
//
// ggml's block_q4_0 on the wire (docs/formats.md#q4_0): an fp16 scale, then 16
// bytes whose low nibbles are the first half of the block.

#ifndef QGEMM_KERNELS_FORMATS_Q4_0_H_
#define QGEMM_KERNELS_FORMATS_Q4_0_H_

#include <cstdint>
#include <memory>

#include "kernels/formats/weights_decoder.h"
#include "kernels/formats/weights_spec.h"
#include "kernels/matrix/weights.h"

namespace qgemm {

constexpr int64_t kQ4_0Block = 32;
constexpr int64_t kQ4_0BlockBytes = 18;

// One block from the two bytes of its fp16 scale and its 32 codes.
void PackQ4_0(const uint8_t* scale, const uint8_t* codes, uint8_t* block);

std::unique_ptr<WeightsDecoder> NewQ4_0Decoder(const WeightsSpec& spec,
                                               WeightsSink* sink);

}  // namespace qgemm

#endif  // QGEMM_KERNELS_FORMATS_Q4_0_H_
