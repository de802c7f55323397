// SPDX-License-Identifier: Apache-2.0
//
// Dense uploads (docs/formats.md#dense): kept as fp16 or bf16, or quantized
// row by row as they arrive.

#ifndef QGEMM_KERNELS_FORMATS_DENSE_H_
#define QGEMM_KERNELS_FORMATS_DENSE_H_

#include <memory>

#include "kernels/formats/weights_decoder.h"
#include "kernels/formats/weights_spec.h"
#include "kernels/matrix/weights.h"

namespace qgemm {

std::unique_ptr<WeightsDecoder> NewDenseDecoder(const WeightsSpec& spec,
                                                WeightsSink* sink);

}  // namespace qgemm

#endif  // QGEMM_KERNELS_FORMATS_DENSE_H_
