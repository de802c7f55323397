// SPDX-License-Identifier: Apache-2.0
//
// Repacks panels of a layer into tiles as they arrive; the only memory it
// takes is the resident layer's own.

#ifndef QGEMM_KERNELS_CPU_CPU_WEIGHTS_BUILDER_H_
#define QGEMM_KERNELS_CPU_CPU_WEIGHTS_BUILDER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cpu/cpu_weights.h"
#include "kernels/matrix/backend.h"
#include "kernels/matrix/weights.h"

namespace qgemm {

// What Begin checks a layer against.
struct CpuWeightsBudget {
  int64_t max_n = 0;
  int64_t max_k = 0;
  int64_t max_bytes = 0;  // of all layers together
  std::shared_ptr<std::atomic<int64_t>> used_bytes;
};

// Used by one thread at a time.
class CpuWeightsBuilder final : public WeightsBuilder {
 public:
  explicit CpuWeightsBuilder(CpuWeightsBudget budget)
      : budget_(std::move(budget)) {}

  absl::Status Begin(const WeightsHeader& header) override;
  absl::Status WriteCodes(const CodePanel& panel) override;
  absl::Status WriteScales(const GroupPanel& panel) override;
  absl::Status WriteZeros(const GroupPanel& panel) override;
  absl::Status WriteDense(const DensePanel& panel) override;
  absl::Status SetTensorScale(float tensor_scale) override;
  absl::StatusOr<std::shared_ptr<const ResidentWeights>> Finish() override;

 private:
  absl::Status TakeMemory(const WeightsHeader& header);
  void SetCodebook(const WeightsHeader& header);
  // Rows [row, row + rows) of the panel, all of one tile.
  void WriteTileCodes(const CodePanel& panel, int64_t row, int64_t rows);
  void WriteGroups(const GroupPanel& panel, int64_t size, uint8_t* target);

  const CpuWeightsBudget budget_;
  int64_t n_ = 0;
  int64_t k_ = 0;
  CpuWeightsParts parts_;
};

}  // namespace qgemm

#endif  // QGEMM_KERNELS_CPU_CPU_WEIGHTS_BUILDER_H_
