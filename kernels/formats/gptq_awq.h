// SPDX-License-Identifier: Apache-2.0
//
// Group-wise 4-bit weights as GPTQ and AWQ checkpoints store them
// (docs/formats.md#int4): by input features, eight nibbles a word.

#ifndef QGEMM_KERNELS_FORMATS_GPTQ_AWQ_H_
#define QGEMM_KERNELS_FORMATS_GPTQ_AWQ_H_

#include <memory>

#include "kernels/formats/weights_decoder.h"
#include "kernels/formats/weights_spec.h"
#include "kernels/matrix/weights.h"

namespace qgemm {

std::unique_ptr<WeightsDecoder> NewGptqAwqDecoder(const WeightsSpec& spec,
                                                  WeightsSink* sink);

}  // namespace qgemm

#endif  // QGEMM_KERNELS_FORMATS_GPTQ_AWQ_H_
