// SPDX-License-Identifier: Apache-2.0
//
// A layer as the CPU backend keeps it: one buffer of tiles, the tables and
// factors that microkernels read it with, and the builder that fills them.

#ifndef QGEMM_KERNELS_CPU_CPU_WEIGHTS_H_
#define QGEMM_KERNELS_CPU_CPU_WEIGHTS_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/byte_budget.h"
#include "base/file_descriptor.h"
#include "kernels/cpu/aligned_memory.h"
#include "kernels/cpu/microkernels/microkernel.h"
#include "kernels/host/weights_arena.h"
#include "kernels/matrix/backend.h"
#include "kernels/matrix/kept_memory.h"
#include "kernels/matrix/types.h"
#include "kernels/matrix/weights.h"

namespace qgemm::cpu {

// Byte offsets into the buffer, each a multiple of 64. Rows are held in tiles
// of 16, columns in blocks of 32; what pads them is zero.
struct PackedLayout {
  int64_t tiles = 0;
  int64_t blocks = 0;   // a row
  int64_t groups = 0;   // a row; 0 for a dense layer
  int group_shift = 0;  // block >> group_shift is the block's group
  int64_t tile_code_bytes = 0;
  int64_t tile_scale_bytes = 0;
  int64_t tile_zero_bytes = 0;  // 0 without zeros
  int64_t codes_offset = 0;     // codes or dense elements
  int64_t scales_offset = 0;
  int64_t zeros_offset = 0;
  int64_t bias_offset = 0;         // fp32 [n], if there is one
  int64_t permutation_offset = 0;  // int32 [k], if there is one
  int64_t total_bytes = 0;
};

// The layout of a layer. Errors: INVALID_ARGUMENT (n, k or group_size not
// positive, or beyond 64 bits of bytes), UNIMPLEMENTED (a code width, group
// size or dense type without microkernels).
absl::StatusOr<PackedLayout> LayoutOf(const WeightsShape& shape);

// A codebook as microkernels read it, 32 entries.
struct CpuTables {
  // Whole numbers as they are; else divided by a power of two so that no entry
  // exceeds 1, and rounded to 16 significant bits. Repeated.
  std::array<float, 32> entries{};
  // The same, each rounded to bf16.
  std::array<float, 32> rounded{};
  // bf16 parts of the value that a pair's index picks (microkernel.h).
  std::array<uint16_t, 32> high{};
  std::array<uint16_t, 32> low{};
  bool has_low = false;
};

struct CpuWeightsParts {
  WeightsShape shape;
  // Codes 0..15 stand for themselves and all zeros are at most 16, so that
  // their differences are -16 to 15.
  bool small_differences = false;
  // All scales are zero or of magnitudes from 2^-64 to 2^32, so that bf16 parts
  // of a weight with its scale are not subnormal, and no sum of their products
  // passes 2^121 (row_conversion.cc).
  bool moderate_scales = true;
  PackedLayout layout;
  ByteReservation reservation;  // outlives the memory that it counts
  LayerMemory<AlignedMemory> memory;
  uint64_t checksum = 0;  // of memory in an arena
  CpuTables tables;
  float zero_unit = 0;  // a zero of 1 in the table's unit
  // Factors of a row's sum: of table times fp32 activations, and of integer
  // dots with Q8_1 activations.
  double float_factor = 1;
  double integer_factor = 1;
};

// Immutable and thread-safe.
class CpuWeights final : public ResidentWeights {
 public:
  explicit CpuWeights(CpuWeightsParts parts)
      : ResidentWeights(parts.shape.n, parts.shape.k),
        parts_(std::move(parts)) {}

  int64_t resident_bytes() const override { return parts_.memory.size_bytes(); }

  const CpuWeightsParts& parts() const { return parts_; }
  const WeightsShape& shape() const { return parts_.shape; }
  bool small_differences() const { return parts_.small_differences; }
  bool moderate_scales() const { return parts_.moderate_scales; }
  const PackedLayout& layout() const { return parts_.layout; }
  double float_factor() const { return parts_.float_factor; }
  double integer_factor() const { return parts_.integer_factor; }

  // [n], or empty.
  absl::Span<const float> bias() const;
  // [k], or empty.
  absl::Span<const int32_t> permutation() const;

  // The weight side of a microkernel's arguments for a tile, with entries
  // rounded to bf16 or to 16 bits (kFloat32).
  TileArgs ArgsOfTile(int64_t tile, FloatType entry_type) const;

 private:
  const CpuWeightsParts parts_;
};

// Memory of all layers.
struct CpuWeightsMemory {
  ByteBudget* budget = nullptr;  // counts it; outlives its users
  // Places of layers that can outlive the process; null: they cannot.
  std::shared_ptr<WeightsArena> arena;
};

// Takes zeroed memory for the layer's layout. Errors: RESOURCE_EXHAUSTED.
absl::Status TakeMemory(const CpuWeightsMemory& memory, CpuWeightsParts* parts);

// Repacks panels of a layer into tiles as they arrive; the only memory it takes
// is the resident layer's own. Used by one thread at a time.
class CpuWeightsBuilder final : public WeightsBuilder {
 public:
  CpuWeightsBuilder(const BackendLimits& limits, CpuWeightsMemory memory)
      : limits_(limits), memory_(std::move(memory)) {}

  absl::Status Begin(const WeightsHeader& header) override;
  absl::Status WriteCodes(const CodePanel& panel) override;
  absl::Status WriteScales(const GroupPanel& panel) override;
  absl::Status WriteZeros(const GroupPanel& panel) override;
  absl::Status WriteDense(const DensePanel& panel) override;
  absl::Status SetTensorScale(float tensor_scale) override;
  absl::StatusOr<std::shared_ptr<const ResidentWeights>> Finish() override;

 private:
  void SetCodebook(const WeightsHeader& header);
  // Writes rows [row, row + rows) of the panel, all of one tile.
  void WriteTileCodes(const CodePanel& panel, int64_t row, int64_t rows);
  void WriteGroups(const GroupPanel& panel, int64_t size, uint8_t* target);

  const BackendLimits limits_;
  const CpuWeightsMemory memory_;
  CpuWeightsParts parts_;
};

// Layers in memfds, which outlive the process as long as somebody has a copy of
// the descriptor. Thread-safe.
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

#endif  // QGEMM_KERNELS_CPU_CPU_WEIGHTS_H_
