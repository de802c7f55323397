// SPDX-License-Identifier: Apache-2.0
//
// The decode kernels of the codes QGEMM_CODES (TileLayout::codes), which BUILD
// defines.

#include "kernels/cuda/device/decode_gemm/kernel.cuh"
#include "kernels/cuda/launch/kernel_table.cuh"

namespace qgemm::cuda {
namespace {

struct DecodeFamily {
  using Kernel = DecodeKernel;

  // Tiles of 8, 16, 32 and 64 rows of A.
  template <int kCodes, ScaleKind kScale, bool kZeros, typename T>
  static void Fill(Kernel (&kernels)[kTileMChoices]) {
    kernels[0] = DecodeGemm<kCodes, kScale, kZeros, T, 1>;
    kernels[1] = DecodeGemm<kCodes, kScale, kZeros, T, 2>;
    kernels[2] = DecodeGemm<kCodes, kScale, kZeros, T, 4>;
    kernels[3] = DecodeGemm<kCodes, kScale, kZeros, T, 8>;
  }
};

}  // namespace

template <int kCodes>
const KernelTable<DecodeKernel>& DecodeKernels() {
  static const auto table = MakeKernelTable<DecodeFamily, kCodes>();
  return table;
}

template const KernelTable<DecodeKernel>& DecodeKernels<QGEMM_CODES>();

}  // namespace qgemm::cuda
