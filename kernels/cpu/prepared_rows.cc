// SPDX-License-Identifier: Apache-2.0
//
// Lays rows out in one buffer.

#include "kernels/cpu/prepared_rows.h"

#include <algorithm>

#include "base/checked_math.h"
#include "base/status_macros.h"

namespace qgemm {
namespace {

constexpr int64_t kBudgetBytes = int64_t{64} << 20;
// A cache line between rows, so that rows of a power-of-two length do not
// fall on one set of the cache.
constexpr int64_t kRowGap = 16;

}  // namespace

// Bytes of each part of a row.
struct PreparedRows::Strides {
  int64_t blocks;
  int64_t float_stride;
  int64_t block_stride;
  bool scratch;
  bool quantized;

  int64_t BytesPerRow() const {
    const int64_t floats = float_stride * 4 * (scratch ? 2 : 1);
    const int64_t integers = quantized ? float_stride + block_stride * 8 : 0;
    return floats + integers + 8;
  }
};

PreparedRows::Strides PreparedRows::StridesOf(const RowSource& source) {
  Strides strides;
  strides.blocks = CeilDiv(source.k, kBlockElements);
  strides.float_stride = RoundUp(strides.blocks * kBlockElements, 64) + kRowGap;
  strides.block_stride = RoundUp(strides.blocks, 16);
  strides.scratch = !source.permutation.empty();
  strides.quantized = source.signature.mode == ComputeMode::kA8;
  return strides;
}

int64_t PreparedRows::RowsThatFit(const RowSource& source) {
  const int64_t rows = kBudgetBytes / StridesOf(source).BytesPerRow();
  return std::max<int64_t>(rows / kMaxMr, 1) * kMaxMr;
}

absl::Status PreparedRows::Reset(const RowSource& source, int64_t rows) {
  const Strides strides = StridesOf(source);
  const int64_t bytes = rows * strides.BytesPerRow();
  if (bytes > memory_.held_bytes()) {
    memory_ = AlignedMemory();
    ASSIGN_OR_RETURN(memory_, AlignedMemory::Allocate(bytes));
  }
  source_ = &source;
  blocks_ = strides.blocks;
  float_stride_ = strides.float_stride;
  block_stride_ = strides.block_stride;
  // Widest elements first, so that each array is aligned to its own.
  uint8_t* next = memory_.data();
  const auto take = [&next](int64_t part_bytes) {
    uint8_t* part = next;
    next += part_bytes;
    return part;
  };
  floats_ = reinterpret_cast<float*>(take(rows * float_stride_ * 4));
  scratch_ = strides.scratch
                 ? reinterpret_cast<float*>(take(rows * float_stride_ * 4))
                 : nullptr;
  factors_ = reinterpret_cast<double*>(take(rows * 8));
  if (!strides.quantized) return absl::OkStatus();
  d8_ = reinterpret_cast<float*>(take(rows * block_stride_ * 4));
  q8_sum_ = reinterpret_cast<int32_t*>(take(rows * block_stride_ * 4));
  q8_ = reinterpret_cast<int8_t*>(take(rows * float_stride_));
  return absl::OkStatus();
}

void PreparedRows::Prepare(int64_t row, const uint8_t* elements) {
  float* target = floats_ + row * float_stride_;
  float* scratch =
      scratch_ == nullptr ? nullptr : scratch_ + row * float_stride_;
  factors_[row] =
      PrepareRow(*source_, elements, blocks_ * kBlockElements, scratch, target);
  if (source_->signature.mode != ComputeMode::kA8) return;
  QuantizeRow(target, blocks_,
              {q8_ + row * float_stride_, d8_ + row * block_stride_,
               q8_sum_ + row * block_stride_});
}

void PreparedRows::SetArgs(int64_t first_row, TileArgs& args) const {
  args.a = floats_ + first_row * float_stride_;
  args.a_stride = float_stride_;
  if (source_->signature.mode != ComputeMode::kA8) return;
  args.q8 = q8_ + first_row * float_stride_;
  args.d8 = d8_ + first_row * block_stride_;
  args.q8_sum = q8_sum_ + first_row * block_stride_;
  args.q8_stride = float_stride_;
  args.d8_stride = block_stride_;
}

}  // namespace qgemm
