// SPDX-License-Identifier: Apache-2.0

#include "client/load.h"

#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "client/weights_stream.h"

namespace qgemm {

WeightsSpec SpecOf(const DenseUpload& dense) {
  WeightsSpec spec;
  spec.format = WireFormat::kDense;
  spec.n = dense.n;
  spec.k = dense.k;
  spec.has_bias = !dense.bias.empty();
  spec.dense_type = dense.type;
  spec.quantize_to = dense.target;
  switch (dense.target) {
    case QuantizeTarget::kNone:
      spec.resident_type = dense.resident_type;
      break;
    case QuantizeTarget::kKbit:
      spec.bits = dense.bits;
      break;
    case QuantizeTarget::kInt4:
      spec.group_size = dense.group_size;
      spec.has_zeros = dense.asymmetric;
      break;
    case QuantizeTarget::kQ4_0:
    case QuantizeTarget::kTernary:
      break;
  }
  return spec;
}

absl::StatusOr<std::string> IdOf(const EncodedWeights& weights) {
  ASSIGN_OR_RETURN(const WeightsStream stream, StreamOf(weights));
  ASSIGN_OR_RETURN(const Sha256Digest id, HashOf(stream));
  return ToHex(id);
}

}  // namespace qgemm
