// SPDX-License-Identifier: Apache-2.0
//
// The kernels of one kind of codes, as a table. Each kind is instantiated in a
// file of its own (wqa16_gemm_w4.cu, ...), so that they compile side by side.

#ifndef QGEMM_KERNELS_CUDA_LAUNCH_WQA16_GEMM_TABLE_CUH_
#define QGEMM_KERNELS_CUDA_LAUNCH_WQA16_GEMM_TABLE_CUH_

#include "kernels/cuda/device/wqa16_gemm.cuh"

namespace qgemm::cuda {

using Wqa16Kernel = void (*)(GemmArguments);

// Tiles of 8 tokens that a kernel multiplies.
inline constexpr int kTokenTileCounts[] = {1, 2, 4, 8};
inline constexpr int kTokenTileChoices = 4;

// Kernels by activation type (fp16, bf16) and token tiles.
struct Wqa16KernelRow {
  Wqa16Kernel kernel[2][kTokenTileChoices];
};

inline constexpr int kScaleKinds = 5;

// The rows of a code width, by kind of scales; a null kernel does not exist.
struct Wqa16KernelTable {
  Wqa16KernelRow plain[kScaleKinds];
  Wqa16KernelRow zeros[kScaleKinds];
};

template <int kCodes, ScaleKind kScale, bool kZeros, typename T>
constexpr void FillRow(Wqa16Kernel (&row)[kTokenTileChoices]) {
  row[0] = Wqa16Gemm<kCodes, kScale, kZeros, T, 1>;
  row[1] = Wqa16Gemm<kCodes, kScale, kZeros, T, 2>;
  row[2] = Wqa16Gemm<kCodes, kScale, kZeros, T, 4>;
  row[3] = Wqa16Gemm<kCodes, kScale, kZeros, T, 8>;
}

template <int kCodes, ScaleKind kScale, bool kZeros = false>
void AddRow(Wqa16KernelRow (&rows)[kScaleKinds]) {
  Wqa16KernelRow& row = rows[static_cast<int>(kScale)];
  FillRow<kCodes, kScale, kZeros, __half>(row.kernel[0]);
  FillRow<kCodes, kScale, kZeros, __nv_bfloat16>(row.kernel[1]);
}

// What TileLayoutOf lets through.
template <int kCodes>
Wqa16KernelTable MakeTable() {
  Wqa16KernelTable table = {};
  AddRow<kCodes, ScaleKind::kRow>(table.plain);
  if constexpr (kCodes != kTernaryCodes) {
    AddRow<kCodes, ScaleKind::kE4m4>(table.plain);
  }
  if constexpr (kCodes == 4) {
    AddRow<kCodes, ScaleKind::kFloat16>(table.plain);
    AddRow<kCodes, ScaleKind::kBFloat16>(table.plain);
    AddRow<kCodes, ScaleKind::kFloat32>(table.plain);
    AddRow<kCodes, ScaleKind::kFloat16, true>(table.zeros);
    AddRow<kCodes, ScaleKind::kBFloat16, true>(table.zeros);
    AddRow<kCodes, ScaleKind::kFloat32, true>(table.zeros);
    AddRow<kCodes, ScaleKind::kRow, true>(table.zeros);
  }
  return table;
}

const Wqa16KernelTable& Wqa16KernelsTernary();
const Wqa16KernelTable& Wqa16KernelsW2();
const Wqa16KernelTable& Wqa16KernelsW3();
const Wqa16KernelTable& Wqa16KernelsW4();
const Wqa16KernelTable& Wqa16KernelsW5();

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_LAUNCH_WQA16_GEMM_TABLE_CUH_
