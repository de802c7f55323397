// SPDX-License-Identifier: Apache-2.0
//
// A layer as the CPU backend keeps it: one buffer of tiles, and what the
// microkernels need to read it.

#ifndef QGEMM_KERNELS_CPU_CPU_WEIGHTS_H_
#define QGEMM_KERNELS_CPU_CPU_WEIGHTS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/types/span.h"
#include "kernels/cpu/aligned_memory.h"
#include "kernels/cpu/microkernel.h"
#include "kernels/cpu/packed_layout.h"
#include "kernels/matrix/backend.h"
#include "kernels/matrix/types.h"

namespace qgemm {

// Adds to a shared count of bytes while it lives.
class ByteCharge {
 public:
  ByteCharge() = default;
  ByteCharge(std::shared_ptr<std::atomic<int64_t>> total, int64_t bytes)
      : total_(std::move(total)), bytes_(bytes) {
    total_->fetch_add(bytes_);
  }
  ByteCharge(ByteCharge&& other) noexcept { *this = std::move(other); }
  ByteCharge& operator=(ByteCharge&& other) noexcept {
    std::swap(total_, other.total_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~ByteCharge() {
    if (total_ != nullptr) total_->fetch_sub(bytes_);
  }

 private:
  std::shared_ptr<std::atomic<int64_t>> total_;
  int64_t bytes_ = 0;
};

// What the header says of a layer, without its vectors.
struct CpuWeightsTraits {
  bool dense = false;
  FloatType dense_type = FloatType::kFloat16;
  int bits = 0;
  ScaleType scale_type = ScaleType::kFloat16;
  bool has_zeros = false;
  bool has_bias = false;
  bool has_permutation = false;
  bool integer_codes = false;
  bool supports_a8 = false;
  // Codes 0..15 stand for themselves and all zeros are at most 16, so that
  // their differences are -16 to 15.
  bool small_differences = false;
};

// A codebook as microkernels read it, 32 entries.
struct CpuTables {
  // Divided by a power of two so that no entry exceeds 1, and repeated.
  std::array<float, 32> exact{};
  // The same, each rounded to bf16.
  std::array<float, 32> rounded{};
  // bf16 parts of what a pair's index picks (microkernel.h).
  std::array<uint16_t, 32> high{};
  std::array<uint16_t, 32> low{};
  bool has_low = false;
};

// Everything but the shape.
struct CpuWeightsParts {
  CpuWeightsTraits traits;
  PackedLayout layout;
  AlignedMemory memory;
  ByteCharge charge;
  CpuTables tables;
  float zero_unit = 0;  // what a zero of 1 stands for in the table's unit
  // What a row's sum is multiplied by: of table times fp32 activations, and
  // of integer dots with Q8_1 activations.
  double float_factor = 1;
  double integer_factor = 1;
};

// Immutable and thread-safe.
class CpuWeights final : public ResidentWeights {
 public:
  CpuWeights(int64_t n, int64_t k, CpuWeightsParts parts)
      : ResidentWeights(n, k), parts_(std::move(parts)) {}

  int64_t resident_bytes() const override { return parts_.memory.held_bytes(); }

  const CpuWeightsTraits& traits() const { return parts_.traits; }
  const PackedLayout& layout() const { return parts_.layout; }
  double float_factor() const { return parts_.float_factor; }
  double integer_factor() const { return parts_.integer_factor; }

  // [n], or empty.
  absl::Span<const float> bias() const;
  // [k], or empty.
  absl::Span<const int32_t> permutation() const;

  // The weight side of a microkernel's arguments for a tile.
  TileArgs ArgsOfTile(int64_t tile, int family) const;

 private:
  const CpuWeightsParts parts_;
};

}  // namespace qgemm

#endif  // QGEMM_KERNELS_CPU_CPU_WEIGHTS_H_
