// SPDX-License-Identifier: Apache-2.0
//
// The kernels of one code width, as a table. Each width is instantiated in a
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

// The rows of a code width; a null kernel does not exist.
struct Wqa16KernelTable {
  Wqa16KernelRow e4m4;
  Wqa16KernelRow general;
  Wqa16KernelRow zeros;  // general scales and zeros: 4 bits only
};

template <int kBits, ScaleReader kReader, bool kZeros, typename T>
constexpr void FillRow(Wqa16Kernel (&row)[kTokenTileChoices]) {
  row[0] = Wqa16Gemm<kBits, kReader, kZeros, T, 1>;
  row[1] = Wqa16Gemm<kBits, kReader, kZeros, T, 2>;
  row[2] = Wqa16Gemm<kBits, kReader, kZeros, T, 4>;
  row[3] = Wqa16Gemm<kBits, kReader, kZeros, T, 8>;
}

template <int kBits, ScaleReader kReader, bool kZeros>
Wqa16KernelRow MakeRow() {
  Wqa16KernelRow row = {};
  FillRow<kBits, kReader, kZeros, __half>(row.kernel[0]);
  FillRow<kBits, kReader, kZeros, __nv_bfloat16>(row.kernel[1]);
  return row;
}

template <int kBits>
Wqa16KernelTable MakeTable() {
  Wqa16KernelTable table = {};
  table.e4m4 = MakeRow<kBits, ScaleReader::kE4m4, false>();
  table.general = MakeRow<kBits, ScaleReader::kGeneral, false>();
  if constexpr (kBits == 4) {
    table.zeros = MakeRow<kBits, ScaleReader::kGeneral, true>();
  }
  return table;
}

const Wqa16KernelTable& Wqa16KernelsW2();
const Wqa16KernelTable& Wqa16KernelsW3();
const Wqa16KernelTable& Wqa16KernelsW4();
const Wqa16KernelTable& Wqa16KernelsW5();

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_LAUNCH_WQA16_GEMM_TABLE_CUH_
