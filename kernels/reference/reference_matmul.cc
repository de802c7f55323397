// SPDX-License-Identifier: Apache-2.0
//
// Forwards panels to CanonicalWeights, allocates staging with new, and rounds
// the fp64 oracle's product to the output's type.

#include "kernels/reference/reference_matmul.h"

#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "kernels/host/batch_checks.h"
#include "kernels/matrix/fp64_oracle.h"

namespace qgemm::reference {
namespace {

constexpr int64_t kStagingAlignment = 64;

class ReferenceBuilder final : public WeightsBuilder {
 public:
  ReferenceBuilder(const BackendLimits& limits, ByteBudget* budget)
      : limits_(limits), budget_(budget) {}

  absl::Status Begin(const WeightsHeader& header) override {
    RETURN_IF_ERROR(CheckLayerLimits(header, limits_));
    ASSIGN_OR_RETURN(memory_, budget_->Reserve(CanonicalBytes(header)));
    return canonical_.Begin(header);
  }
  absl::Status WriteCodes(const CodePanel& panel) override {
    return canonical_.WriteCodes(panel);
  }
  absl::Status WriteScales(const GroupPanel& panel) override {
    return canonical_.WriteScales(panel);
  }
  absl::Status WriteZeros(const GroupPanel& panel) override {
    return canonical_.WriteZeros(panel);
  }
  absl::Status WriteDense(const DensePanel& panel) override {
    return canonical_.WriteDense(panel);
  }
  absl::Status SetTensorScale(float tensor_scale) override {
    return canonical_.SetTensorScale(tensor_scale);
  }
  absl::StatusOr<std::shared_ptr<const ResidentWeights>> Finish() override {
    CHECK_GT(memory_.bytes(), 0) << "Finish without Begin, or twice";
    return std::make_shared<const ReferenceWeights>(std::move(canonical_),
                                                    std::move(memory_));
  }

 private:
  const BackendLimits limits_;
  ByteBudget* const budget_;
  ByteReservation memory_;
  CanonicalWeights canonical_;
};

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

int64_t CanonicalBytes(const WeightsShape& shape) {
  int64_t bytes = shape.has_bias ? shape.n * sizeof(float) : 0;
  const int64_t elements = shape.n * shape.k;
  if (shape.dense) return bytes + elements * SizeOf(shape.dense_type);
  const int64_t groups = shape.n * shape.groups_per_row();
  bytes += elements + groups * SizeOf(shape.scale_type);
  if (shape.has_zeros) bytes += groups;
  if (shape.has_permutation) bytes += shape.k * sizeof(int32_t);
  return bytes + (int64_t{sizeof(float)} << shape.bits);
}

std::unique_ptr<WeightsBuilder> NewReferenceBuilder(const BackendLimits& limits,
                                                    ByteBudget* budget) {
  return std::make_unique<ReferenceBuilder>(limits, budget);
}

absl::StatusOr<StagingLease> AcquireHostStaging(int64_t size_bytes,
                                                ByteBudget* budget) {
  if (size_bytes < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("staging: size_bytes = ", size_bytes));
  }
  ASSIGN_OR_RETURN(ByteReservation reservation, budget->Reserve(size_bytes));
  void* memory = ::operator new (
      size_bytes, std::align_val_t{kStagingAlignment}, std::nothrow);
  if (memory == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("staging: out of memory for ", size_bytes, " bytes"));
  }
  return StagingLease(static_cast<uint8_t*>(memory), size_bytes,
                      [memory, reservation = std::move(reservation)] {
                        ::operator delete (memory,
                                           std::align_val_t{kStagingAlignment});
                      });
}

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
