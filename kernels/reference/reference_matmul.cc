// SPDX-License-Identifier: Apache-2.0
//
// The fp64 oracle's product, rounded to the output's type.

#include "kernels/reference/reference_matmul.h"

#include "absl/strings/str_cat.h"
#include "kernels/matrix/fp64_oracle.h"
#include "kernels/reference/reference_weights.h"

namespace qgemm {
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

absl::Status CheckReferenceSupport(const WeightsHeader& header,
                                   const MatmulSignature& signature) {
  const bool quantized = header.kind == WeightsHeader::Kind::kQuantized;
  switch (signature.mode) {
    case ComputeMode::kA16:
      if (signature.a_type == FloatType::kFloat32 &&
          signature.rounding == FloatType::kFloat32) {
        return absl::InvalidArgumentError(
            "signature: rounding = fp32 in mode A16; legal: fp16, bf16");
      }
      return absl::OkStatus();
    case ComputeMode::kA8:
      if (quantized && header.supports_a8) return absl::OkStatus();
      return absl::UnimplementedError(
          "mode A8 is defined for Q4_0 weights only; these weights offer A16");
    case ComputeMode::kA32:
      if (quantized && header.integer_codes) return absl::OkStatus();
      return absl::UnimplementedError(
          "mode A32 needs weights whose codes are integers; these weights "
          "offer A16");
  }
  return absl::InvalidArgumentError("signature: unknown mode");
}

absl::Status CheckBatchShape(const GemmBatch& batch,
                             const BackendLimits& limits) {
  if (batch.weights == nullptr) {
    return absl::InvalidArgumentError("batch: no weights");
  }
  if (batch.segments.empty()) {
    return absl::InvalidArgumentError("batch: no segments");
  }
  int64_t rows = 0;
  for (const RowSegment& segment : batch.segments) {
    if (segment.rows < 1 || segment.rows > limits.max_batch_rows - rows) {
      return absl::InvalidArgumentError(absl::StrCat(
          "batch: a segment of ", segment.rows, " rows after ", rows,
          " others; legal: 1 or more, ", limits.max_batch_rows, " in all"));
    }
    if (segment.a == nullptr || segment.c == nullptr) {
      return absl::InvalidArgumentError("batch: a segment without operands");
    }
    rows += segment.rows;
  }
  return absl::OkStatus();
}

void ReferenceMatmul(const GemmBatch& batch) {
  const auto& weights = static_cast<const ReferenceWeights&>(*batch.weights);
  for (const RowSegment& segment : batch.segments) {
    MultiplySegment(weights.canonical(), batch.signature, segment);
  }
}

}  // namespace qgemm
