// SPDX-License-Identifier: Apache-2.0
//
// 4-bit codes minus 8 times Q8_1 activations in portable C++.

#include <algorithm>

#include "kernels/cpu/microkernels/code_packing.h"
#include "kernels/cpu/microkernels/microkernel.h"
#include "kernels/cpu/microkernels/tile_scales_scalar.h"

namespace qgemm::cpu {
namespace {

// Position of element k of a group of 8 (microkernel.h).
constexpr int kStoredAt[8] = {0, 4, 1, 5, 2, 6, 3, 7};

int32_t BlockDot(const uint8_t* block, int lane, const int8_t* q8) {
  uint8_t codes[kBlockElements];
  UnpackBlockRow(4, block, lane, codes);
  int32_t dot = 0;
  for (int k = 0; k < kBlockElements; ++k) {
    dot += (codes[k] - 8) * q8[(k & ~7) + kStoredAt[k & 7]];
  }
  return dot;
}

float RowSum(const TileArgs& args, int lane) {
  float sum = 0;
  for (int64_t begin = 0; begin < args.blocks; begin += kChunkBlocks) {
    const int64_t end = std::min(begin + kChunkBlocks, args.blocks);
    float chain = 0;
    for (int64_t block = begin; block < end; ++block) {
      const int32_t dot = BlockDot(args.codes + block * 256, lane,
                                   args.q8 + block * kBlockElements);
      const float scale = TileScaleAt(args, block >> args.group_shift, lane);
      chain += static_cast<float>(dot) * (scale * args.d8[block]);
    }
    sum += chain;
  }
  return sum;
}

void Run(const TileArgs* args) {
  for (int lane = 0; lane < kTileRows; ++lane) {
    args->sums[lane] = RowSum(*args, lane);
  }
}

constexpr Microkernel kRows[] = {
    {"w4a8_1x16_scalar", kFamilyW4A8, 4, 0, 1, Run},
};

}  // namespace

MicrokernelRows W4A8ScalarRows() {
  return {kRows, sizeof(kRows) / sizeof(kRows[0])};
}

}  // namespace qgemm::cpu
