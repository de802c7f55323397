// SPDX-License-Identifier: Apache-2.0
//
// fp16 and bf16 weights times fp32 activations in portable C++.

#include <algorithm>
#include <cstring>

#include "base/float16.h"
#include "kernels/cpu/microkernels/microkernel.h"

namespace qgemm::cpu {
namespace {

template <int kFamily>
float WeightAt(const TileArgs& args, int64_t k, int lane) {
  uint16_t bits;
  std::memcpy(&bits, args.codes + (k * kTileRows + lane) * 2, sizeof(bits));
  return kFamily == kFamilyFloat16 ? Float16ToFloat(bits)
                                   : BFloat16ToFloat(bits);
}

template <int kFamily>
float RowSum(const TileArgs& args, int lane) {
  float sum = 0;
  for (int64_t begin = 0; begin < args.blocks; begin += kChunkBlocks) {
    const int64_t end = std::min(begin + kChunkBlocks, args.blocks);
    float chain = 0;
    for (int64_t block = begin; block < end; ++block) {
      float parity[2] = {0, 0};
      for (int i = 0; i < kBlockElements; ++i) {
        const int64_t k = block * kBlockElements + i;
        parity[i & 1] += WeightAt<kFamily>(args, k, lane) * args.a[k];
      }
      chain += parity[0] + parity[1];
    }
    sum += chain;
  }
  return sum;
}

template <int kFamily>
void Run(const TileArgs* args) {
  for (int lane = 0; lane < kTileRows; ++lane) {
    args->sums[lane] = RowSum<kFamily>(*args, lane);
  }
}

constexpr Microkernel kRows[] = {
    {"wf16a32_1x16_scalar", kFamilyFloat16, 0, 0, 1, Run<kFamilyFloat16>},
    {"wbf16a32_1x16_scalar", kFamilyBFloat16, 0, 0, 1, Run<kFamilyBFloat16>},
};

}  // namespace

MicrokernelRows W16A32ScalarRows() {
  return {kRows, sizeof(kRows) / sizeof(kRows[0])};
}

}  // namespace qgemm::cpu
