// SPDX-License-Identifier: Apache-2.0
//
// Layers of the CPU backend in memfds, which outlive the process as long as
// somebody has a copy of the descriptor.

#ifndef QGEMM_KERNELS_CPU_CPU_KEPT_MEMORY_H_
#define QGEMM_KERNELS_CPU_CPU_KEPT_MEMORY_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/byte_budget.h"
#include "base/file_descriptor.h"
#include "kernels/host/weights_arena.h"
#include "kernels/matrix/backend.h"
#include "kernels/matrix/kept_memory.h"

namespace qgemm::cpu {

// Thread-safe.
class CpuKeptMemory final : public KeptMemory {
 public:
  // Checks what it inherits by the limits. `budget` counts all layers and must
  // outlive it.
  CpuKeptMemory(const BackendLimits& limits, ByteBudget* budget);

  KeptDevice device() const override { return {}; }
  std::optional<KeptLayer> PlaceOf(
      const ResidentWeights& weights) const override;
  void Watch(ChunkWatcher* watcher) override { arena_->Watch(watcher); }
  absl::Status Adopt(uint32_t chunk, int64_t size_bytes,
                     FileDescriptor descriptor) override;
  absl::StatusOr<std::shared_ptr<const ResidentWeights>> Inherit(
      const KeptLayer& layer) override;
  void EndAdoption() override { arena_->EndAdoption(); }

  const std::shared_ptr<WeightsArena>& arena() const { return arena_; }

 private:
  const BackendLimits limits_;
  ByteBudget* const budget_;
  const std::shared_ptr<WeightsArena> arena_;
};

}  // namespace qgemm::cpu

#endif  // QGEMM_KERNELS_CPU_CPU_KEPT_MEMORY_H_
