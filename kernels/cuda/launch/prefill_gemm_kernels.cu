// SPDX-License-Identifier: Apache-2.0
//
// The prefill kernels of the codes QGEMM_CODES (TileLayout::codes), which BUILD
// defines.

#include "kernels/cuda/device/prefill_gemm/kernel.cuh"
#include "kernels/cuda/launch/kernel_table.cuh"
#include "kernels/cuda/plan/tile_scheduler.h"

namespace qgemm::cuda {
namespace {

struct PrefillFamily {
  using Kernel = PrefillKernel;

  // Tiles of kPrefillTileMs rows of A.
  template <int kCodes, ScaleKind kScale, bool kZeros, typename T>
  static void Fill(Kernel (&kernels)[kTileMChoices]) {
    kernels[0] = PrefillGemm<kCodes, kScale, kZeros, T, 64>;
    kernels[1] = PrefillGemm<kCodes, kScale, kZeros, T, 128>;
    if constexpr (OffersTallTiles(kCodes, kScale)) {
      kernels[2] = PrefillGemm<kCodes, kScale, kZeros, T, 192>;
      kernels[3] = PrefillGemm<kCodes, kScale, kZeros, T, 256>;
    }
  }
};

}  // namespace

template <int kCodes>
const KernelTable<PrefillKernel>& PrefillKernels() {
  static const auto table = MakeKernelTable<PrefillFamily, kCodes>();
  return table;
}

template const KernelTable<PrefillKernel>& PrefillKernels<QGEMM_CODES>();

}  // namespace qgemm::cuda
