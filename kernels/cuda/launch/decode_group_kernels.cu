// SPDX-License-Identifier: Apache-2.0
//
// The kernels of groups of decode GEMMs, of the codes QGEMM_CODES
// (TileLayout::codes) and activations of type QGEMM_TYPE, which BUILD defines.

#include <type_traits>

#include "kernels/cuda/device/decode_gemm/group.cuh"
#include "kernels/cuda/launch/group_table.cuh"

namespace qgemm::cuda {
namespace {

struct DecodeGroupFamily {
  using Kernel = DecodeGroupKernel;

  // Tiles of 8, 16, 32 and 64 rows of A. Layers with bf16 or fp32 scales, which
  // are rare, are launched one by one.
  template <int kCodes, ScaleKind kScale, bool kZeros, typename T>
  static void Fill(Kernel (&kernels)[kTileMChoices]) {
    if constexpr (std::is_same_v<T, QGEMM_TYPE> &&
                  kScale != ScaleKind::kBFloat16 &&
                  kScale != ScaleKind::kFloat32) {
      kernels[0] = DecodeGroup<kCodes, kScale, kZeros, T, 1>;
      kernels[1] = DecodeGroup<kCodes, kScale, kZeros, T, 2>;
      kernels[2] = DecodeGroup<kCodes, kScale, kZeros, T, 4>;
      kernels[3] = DecodeGroup<kCodes, kScale, kZeros, T, 8>;
    }
  }
};

}  // namespace

template <int kCodes, typename T>
const KernelTable<DecodeGroupKernel>& DecodeGroupKernels() {
  static const auto table = MakeKernelTable<DecodeGroupFamily, kCodes>();
  return table;
}

template const KernelTable<DecodeGroupKernel>&
DecodeGroupKernels<QGEMM_CODES, QGEMM_TYPE>();

}  // namespace qgemm::cuda
