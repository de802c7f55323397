// SPDX-License-Identifier: Apache-2.0
//
// The fp64 oracle's product, rounded to the output's type.

#include "kernels/reference/reference_matmul.h"

#include "kernels/host/batch_checks.h"
#include "kernels/matrix/fp64_oracle.h"
#include "kernels/reference/reference_memory.h"

namespace qgemm::reference {
namespace {

void MultiplySegment(const CanonicalWeights& weights,
                     const MatmulSignature& signature,
                     const RowSegment& segment) {
  const int64_t a_bytes =
      segment.rows * weights.header().k * SizeOf(signature.a_type);
  const OracleProduct product =
      Fp64Matmul(weights, signature, absl::MakeConstSpan(segment.a, a_bytes),
                 segment.rows);
  uint8_t* c = segment.c;
  for (const double value : product.values) {
    StoreFloat(signature.c_type, static_cast<float>(value), c);
    c += SizeOf(signature.c_type);
  }
}

}  // namespace

absl::Status CheckReferenceSupport(const WeightsShape& shape,
                                   const MatmulSignature& signature) {
  switch (signature.mode) {
    case ComputeMode::kA16:
      return CheckRounding(signature);
    case ComputeMode::kA8:
      if (shape.supports_a8) return absl::OkStatus();
      return absl::UnimplementedError(
          "mode A8 is defined for Q4_0 weights only; these weights offer A16");
    case ComputeMode::kA32:
      if (shape.integer_codes) return absl::OkStatus();
      return absl::UnimplementedError(
          "mode A32 needs weights whose codes are integers; these weights "
          "offer A16");
  }
  return absl::InvalidArgumentError("signature: unknown mode");
}

void ReferenceMatmul(const GemmBatch& batch) {
  const auto& weights = static_cast<const ReferenceWeights&>(*batch.weights);
  for (const RowSegment& segment : batch.segments) {
    MultiplySegment(weights.canonical(), batch.signature, segment);
  }
}

}  // namespace qgemm::reference
