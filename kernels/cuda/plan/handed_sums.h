// SPDX-License-Identifier: Apache-2.0
//
// Memory in which blocks of a launch hand the sums of a part of K over to other
// blocks, which add them in a fixed order: words that say that they are there,
// then each block's sums. A stream has it once, for the prefill kernel and that
// of mode A8, which run one after the other.

#ifndef QGEMM_KERNELS_CUDA_PLAN_HANDED_SUMS_H_
#define QGEMM_KERNELS_CUDA_PLAN_HANDED_SUMS_H_

#include <cstdint>

#include "base/host_device.h"
#include "kernels/cuda/plan/smem_layout.h"

namespace qgemm::cuda {

// Blocks that hand sums over, at most: the largest Hopper has 144 SMs.
inline constexpr int kMaxHandingBlocks = 144;

// Words of a kernel. Those of mode A8 come first and are cleared before each
// launch; those of the prefill kernel are zero between launches.
inline constexpr int kHandedWords = 256;
static_assert(kMaxHandingBlocks <= kHandedWords, "a word for a block");
inline constexpr int64_t kPrefillWordsOffset = kHandedWords * 4;
inline constexpr int64_t kHandedWordsBytes = 2 * kHandedWords * 4;

// The sums of a tile of `tile_m` rows of A.
QGEMM_HOST_DEVICE constexpr int64_t HandedSumsOffset(int tile_m, int block) {
  return kHandedWordsBytes + int64_t{block} * tile_m * kPrefillTileN * 4;
}
inline constexpr int64_t kHandedBytes =
    HandedSumsOffset(kPrefillTileMs[3], kMaxHandingBlocks);

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_PLAN_HANDED_SUMS_H_
