// SPDX-License-Identifier: Apache-2.0
//
// Codes of 2 to 5 bits times fp32 activations in portable C++.

#include <algorithm>

#include "kernels/cpu/microkernels/code_packing.h"
#include "kernels/cpu/microkernels/microkernel.h"
#include "kernels/cpu/microkernels/tile_scales_scalar.h"

namespace qgemm::cpu {
namespace {

// The dot of one block of one row with the activations at `a`.
template <int kBits>
float BlockDot(const uint8_t* block, int lane, const float* table, float zero,
               const float* a) {
  uint8_t codes[kBlockElements];
  UnpackBlockRow(kBits, block, lane, codes);
  float half[2] = {0, 0};
  for (int k = 0; k < kBlockElements; ++k) {
    half[PlaceInPairs(kBits, k).half] += (table[codes[k]] - zero) * a[k];
  }
  return half[0] + half[1];
}

template <int kBits, bool kZeros>
float RowSum(const TileArgs& args, int lane) {
  float sum = 0;
  for (int64_t begin = 0; begin < args.blocks; begin += kChunkBlocks) {
    const int64_t end = std::min(begin + kChunkBlocks, args.blocks);
    float chain = 0;
    for (int64_t block = begin; block < end; ++block) {
      const int64_t group = block >> args.group_shift;
      const float zero =
          kZeros ? args.zeros[group * kTileRows + lane] * args.zero_unit : 0;
      const float dot =
          BlockDot<kBits>(args.codes + block * 64 * kBits, lane, args.table,
                          zero, args.a + block * kBlockElements);
      chain += dot * TileScaleAt(args, group, lane);
    }
    sum += chain;
  }
  return sum;
}

template <int kBits, bool kZeros>
void Run(const TileArgs* args) {
  for (int lane = 0; lane < kTileRows; ++lane) {
    args->sums[lane] = RowSum<kBits, kZeros>(*args, lane);
  }
}

#define QGEMM_ROWS(bits)                                                       \
  {                                                                            \
      "w" #bits "a32_1x16_scalar",                                             \
      kFamilyQuantA32,                                                         \
      bits,                                                                    \
      0,                                                                       \
      1,                                                                       \
      Run<bits, false>},                                                       \
  {                                                                            \
    "w" #bits "a32z_1x16_scalar", kFamilyQuantA32, bits, 1, 1, Run<bits, true> \
  }

constexpr Microkernel kRows[] = {QGEMM_ROWS(2), QGEMM_ROWS(3), QGEMM_ROWS(4),
                                 QGEMM_ROWS(5)};

}  // namespace

MicrokernelRows QuantA32ScalarRows() {
  return {kRows, sizeof(kRows) / sizeof(kRows[0])};
}

}  // namespace qgemm::cpu
