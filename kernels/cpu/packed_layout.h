// SPDX-License-Identifier: Apache-2.0
//
// Offsets of a resident layer's parts in its one buffer: a pure function of
// the header, so that estimates and allocations agree.

#ifndef QGEMM_KERNELS_CPU_PACKED_LAYOUT_H_
#define QGEMM_KERNELS_CPU_PACKED_LAYOUT_H_

#include <cstdint>

#include "absl/status/statusor.h"
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

}  // namespace qgemm::cpu

#endif  // QGEMM_KERNELS_CPU_PACKED_LAYOUT_H_
