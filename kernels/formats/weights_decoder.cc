// SPDX-License-Identifier: Apache-2.0
//
// The list of formats.

#include "kernels/formats/weights_decoder.h"

#include "base/check.h"
#include "kernels/formats/dense.h"
#include "kernels/formats/int4.h"
#include "kernels/formats/kbit.h"
#include "kernels/formats/q4_0.h"
#include "kernels/formats/ternary.h"

namespace qgemm {

std::unique_ptr<WeightsDecoder> NewWeightsDecoder(const WeightsSpec& spec,
                                                  WeightsSink* sink) {
  switch (spec.format) {
    case WireFormat::kKbit:
      return NewKbitDecoder(spec, sink);
    case WireFormat::kQ4_0:
      return NewQ4_0Decoder(spec, sink);
    case WireFormat::kTernary:
      return NewTernaryDecoder(spec, sink);
    case WireFormat::kInt4:
      return spec.int4_layout == Int4Layout::kPlain
                 ? NewInt4PlainDecoder(spec, sink)
                 : NewGptqAwqDecoder(spec, sink);
    case WireFormat::kDense:
      return NewDenseDecoder(spec, sink);
  }
  LOG(FATAL) << "no decoder of format " << static_cast<int>(spec.format);
  return nullptr;
}

}  // namespace qgemm
