// SPDX-License-Identifier: Apache-2.0
//
// The wide kernels of one kind of codes, as a table. Each kind is instantiated
// in a file of its own (wqa16_wide_w4.cu, ...), so that they compile side by
// side.

#ifndef QGEMM_KERNELS_CUDA_LAUNCH_WQA16_WIDE_TABLE_CUH_
#define QGEMM_KERNELS_CUDA_LAUNCH_WQA16_WIDE_TABLE_CUH_

#include "kernels/cuda/device/wqa16_wide.cuh"
#include "kernels/cuda/tuning/wide_choice.h"

namespace qgemm::cuda {

using Wqa16WideKernel = void (*)(WideArguments);

inline constexpr int kWideScaleKinds = 5;
// As in kWideTokenCounts.
inline constexpr int kWideTokenChoices = 4;

// By activation type (fp16, bf16) and tokens of a tile.
struct Wqa16WideRow {
  Wqa16WideKernel kernel[2][kWideTokenChoices];
};

// The rows of a code width, by kind of scales; a null kernel does not exist.
struct Wqa16WideTable {
  Wqa16WideRow plain[kWideScaleKinds];
  Wqa16WideRow zeros[kWideScaleKinds];
};

template <int kCodes, ScaleKind kScale, bool kZeros, typename T>
void FillWide(Wqa16WideKernel (&kernel)[kWideTokenChoices]) {
  kernel[0] = Wqa16Wide<kCodes, kScale, kZeros, T, 64>;
  kernel[1] = Wqa16Wide<kCodes, kScale, kZeros, T, 128>;
  if constexpr (OffersManyTokens(kCodes, kScale)) {
    kernel[2] = Wqa16Wide<kCodes, kScale, kZeros, T, 192>;
    kernel[3] = Wqa16Wide<kCodes, kScale, kZeros, T, 256>;
  }
}

template <int kCodes, ScaleKind kScale, bool kZeros = false>
void AddWide(Wqa16WideRow (&rows)[kWideScaleKinds]) {
  Wqa16WideRow& row = rows[static_cast<int>(kScale)];
  FillWide<kCodes, kScale, kZeros, __half>(row.kernel[0]);
  FillWide<kCodes, kScale, kZeros, __nv_bfloat16>(row.kernel[1]);
}

// What TileLayoutOf lets through.
template <int kCodes>
Wqa16WideTable MakeWideTable() {
  Wqa16WideTable table = {};
  AddWide<kCodes, ScaleKind::kRow>(table.plain);
  if constexpr (kCodes != kTernaryCodes) {
    AddWide<kCodes, ScaleKind::kE4m4>(table.plain);
  }
  if constexpr (kCodes == 4) {
    AddWide<kCodes, ScaleKind::kFloat16>(table.plain);
    AddWide<kCodes, ScaleKind::kBFloat16>(table.plain);
    AddWide<kCodes, ScaleKind::kFloat32>(table.plain);
    AddWide<kCodes, ScaleKind::kFloat16, true>(table.zeros);
    AddWide<kCodes, ScaleKind::kBFloat16, true>(table.zeros);
    AddWide<kCodes, ScaleKind::kFloat32, true>(table.zeros);
    AddWide<kCodes, ScaleKind::kRow, true>(table.zeros);
  }
  return table;
}

const Wqa16WideTable& Wqa16WideKernelsTernary();
const Wqa16WideTable& Wqa16WideKernelsW2();
const Wqa16WideTable& Wqa16WideKernelsW3();
const Wqa16WideTable& Wqa16WideKernelsW4();
const Wqa16WideTable& Wqa16WideKernelsW5();

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_LAUNCH_WQA16_WIDE_TABLE_CUH_
