// SPDX-License-Identifier: Apache-2.0
//
// Repacks panels of a layer into tiles as they arrive; the only memory it
// takes is the resident layer's own.

#ifndef QGEMM_KERNELS_CPU_CPU_WEIGHTS_BUILDER_H_
#define QGEMM_KERNELS_CPU_CPU_WEIGHTS_BUILDER_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/byte_budget.h"
#include "kernels/cpu/cpu_weights.h"
#include "kernels/matrix/backend.h"
#include "kernels/matrix/weights.h"

namespace qgemm::cpu {

// Used by one thread at a time.
class CpuWeightsBuilder final : public WeightsBuilder {
 public:
  // `budget`, which must outlive the builder, counts the memory of all layers.
  CpuWeightsBuilder(const BackendLimits& limits, ByteBudget* budget)
      : limits_(limits), budget_(budget) {}

  absl::Status Begin(const WeightsHeader& header) override;
  absl::Status WriteCodes(const CodePanel& panel) override;
  absl::Status WriteScales(const GroupPanel& panel) override;
  absl::Status WriteZeros(const GroupPanel& panel) override;
  absl::Status WriteDense(const DensePanel& panel) override;
  absl::Status SetTensorScale(float tensor_scale) override;
  absl::StatusOr<std::shared_ptr<const ResidentWeights>> Finish() override;

 private:
  absl::Status TakeMemory();
  void SetCodebook(const WeightsHeader& header);
  // Writes rows [row, row + rows) of the panel, all of one tile.
  void WriteTileCodes(const CodePanel& panel, int64_t row, int64_t rows);
  void WriteGroups(const GroupPanel& panel, int64_t size, uint8_t* target);

  const BackendLimits limits_;
  ByteBudget* const budget_;
  CpuWeightsParts parts_;
};

}  // namespace qgemm::cpu

#endif  // QGEMM_KERNELS_CPU_CPU_WEIGHTS_BUILDER_H_
