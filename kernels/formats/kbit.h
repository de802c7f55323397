// SPDX-License-Identifier: Apache-2.0
//
// kbit on the wire (docs/formats.md#kbit): bit planes of 32 codes, in flat or
// tiled order, and absmax as E4M4, fp16 or fp32.

#ifndef QGEMM_KERNELS_FORMATS_KBIT_H_
#define QGEMM_KERNELS_FORMATS_KBIT_H_

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "kernels/formats/weights_decoder.h"
#include "kernels/formats/weights_spec.h"
#include "kernels/matrix/weights.h"

namespace qgemm {

constexpr int64_t kKbitBlock = 32;

// Bytes of the planes of one block.
constexpr int64_t KbitBlockBytes(int bits) { return int64_t{4} * bits; }

// `blocks` times 32 codes, one a byte, to and from bit planes. `bits` is 2 to
// 5; codes have no higher bits set.
void UnpackKbit(int bits, const uint8_t* planes, int64_t blocks,
                uint8_t* codes);
void PackKbit(int bits, const uint8_t* codes, int64_t blocks, uint8_t* planes);

// The absmax of a row's block.
using AbsmaxAt = absl::FunctionRef<float(int64_t row, int64_t block)>;

// Rounds absmax [n, k / 32] to E4M4 under the tensor scale that E4m4Range
// chooses, and writes both. Reads each absmax twice, in order. Counts into
// `report`. Errors: INVALID_ARGUMENT for one that is negative or not finite,
// the sink's.
absl::Status WriteAbsmax(AbsmaxAt absmax, const WeightsHeader& header,
                         WeightsSink* sink, DecodeReport* report);

std::unique_ptr<WeightsDecoder> NewKbitDecoder(const WeightsSpec& spec,
                                               WeightsSink* sink);

}  // namespace qgemm

#endif  // QGEMM_KERNELS_FORMATS_KBIT_H_
