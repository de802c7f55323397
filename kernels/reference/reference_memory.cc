// SPDX-License-Identifier: Apache-2.0
//
// Forwards panels to CanonicalWeights; allocates staging with new.

#include "kernels/reference/reference_memory.h"

#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/checked_math.h"
#include "kernels/reference/reference_weights.h"

namespace qgemm {
namespace {

constexpr int64_t kStagingAlignment = 64;

absl::Status CheckShape(const WeightsHeader& header,
                        const BackendLimits& limits) {
  if (header.n < 1 || header.n > limits.max_n) {
    return absl::InvalidArgumentError(absl::StrCat(
        "weights: n = ", header.n, "; legal: 1 to ", limits.max_n));
  }
  if (header.k < 1 || header.k > limits.max_k) {
    return absl::InvalidArgumentError(absl::StrCat(
        "weights: k = ", header.k, "; legal: 1 to ", limits.max_k));
  }
  return absl::OkStatus();
}

class ReferenceBuilder final : public WeightsBuilder {
 public:
  ReferenceBuilder(const BackendLimits& limits, MemoryLedger* ledger)
      : limits_(limits), ledger_(ledger) {}

  absl::Status Begin(const WeightsHeader& header) override {
    const absl::Status legal = CheckShape(header, limits_);
    if (!legal.ok()) return legal;
    const int64_t bytes = CanonicalBytes(header);
    if (!ledger_->TryTake(bytes)) {
      return absl::ResourceExhaustedError(
          absl::StrCat("weights: ", bytes, " bytes needed, ",
                       ledger_->limit_bytes() - ledger_->used_bytes(), " of ",
                       ledger_->limit_bytes(), " free"));
    }
    memory_ = MemoryReservation(ledger_, bytes);
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
  MemoryLedger* const ledger_;
  MemoryReservation memory_;
  CanonicalWeights canonical_;
};

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
                                                    MemoryLedger* ledger) {
  return std::make_unique<ReferenceBuilder>(limits, ledger);
}

absl::StatusOr<StagingLease> AcquireHostStaging(int64_t size_bytes,
                                                MemoryLedger* ledger) {
  if (size_bytes < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("staging: size_bytes = ", size_bytes));
  }
  if (!ledger->TryTake(size_bytes)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("staging: ", size_bytes, " bytes wanted, ",
                     ledger->limit_bytes() - ledger->used_bytes(), " of ",
                     ledger->limit_bytes(), " free"));
  }
  void* memory = ::operator new (
      size_bytes, std::align_val_t{kStagingAlignment}, std::nothrow);
  if (memory == nullptr) {
    ledger->GiveBack(size_bytes);
    return absl::ResourceExhaustedError(
        absl::StrCat("staging: out of memory for ", size_bytes, " bytes"));
  }
  return StagingLease(
      static_cast<uint8_t*>(memory), size_bytes, [memory, size_bytes, ledger] {
        ::operator delete (memory, std::align_val_t{kStagingAlignment});
        ledger->GiveBack(size_bytes);
      });
}

}  // namespace qgemm
