// SPDX-License-Identifier: Apache-2.0
//
// The kernels of groups of decode GEMMs in parts, of the codes QGEMM_CODES
// (TileLayout::codes) and activations of type QGEMM_TYPE, which BUILD defines.

#include <type_traits>

#include "kernels/cuda/device/decode_gemm/parts.cuh"
#include "kernels/cuda/launch/group_table.cuh"

namespace qgemm::cuda {
namespace {

struct DecodePartsFamily {
  using Kernel = DecodeGroupKernel;

  // Tiles of 8 and 16 rows of A, of layers whose sums need no scale within a
  // row.
  template <int kCodes, ScaleKind kScale, bool kZeros, typename T>
  static void Fill(Kernel (&kernels)[kTileMChoices]) {
    if constexpr (!kZeros &&
                  (kScale == ScaleKind::kE4m4 || kScale == ScaleKind::kRow)) {
      kernels[0] = DecodeParts<kCodes, kScale, T, 1>;
      kernels[1] = DecodeParts<kCodes, kScale, T, 2>;
    }
  }
};

}  // namespace

template <int kCodes, typename T>
const KernelTable<DecodeGroupKernel>& DecodePartsKernels() {
  static const auto table = MakeKernelTable<DecodePartsFamily, kCodes>();
  return table;
}

template const KernelTable<DecodeGroupKernel>&
DecodePartsKernels<QGEMM_CODES, QGEMM_TYPE>();

}  // namespace qgemm::cuda
