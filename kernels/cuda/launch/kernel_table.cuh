// SPDX-License-Identifier: Apache-2.0
//
// The instances of a kernel family for one kind of codes, as a table. Each kind
// is compiled by an action of its own (decode_gemm_kernels.cu and such), so
// that they compile side by side.

#ifndef QGEMM_KERNELS_CUDA_LAUNCH_KERNEL_TABLE_CUH_
#define QGEMM_KERNELS_CUDA_LAUNCH_KERNEL_TABLE_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include "kernels/cuda/device/gemm_arguments.cuh"
#include "kernels/cuda/layout/tile_layout.h"
#include "kernels/matrix/types.h"

namespace qgemm::cuda {

// Heights of tiles of C that a family is compiled for.
inline constexpr int kTileMChoices = 4;
inline constexpr int kScaleKinds = 5;

template <typename Kernel>
struct KernelTable {
  // By activation type (fp16, bf16) and height of a tile; null where there is
  // no kernel.
  struct Row {
    Kernel kernel[2][kTileMChoices];
  };

  // By kind of scales.
  Row plain[kScaleKinds];
  Row zeros[kScaleKinds];

  // The kernel for a layer of the table's codes.
  Kernel Find(const TileLayout& layout, FloatType a_type, int choice) const {
    const Row& row =
        (layout.has_zeros ? zeros : plain)[static_cast<int>(layout.scale_kind)];
    return row.kernel[a_type == FloatType::kBFloat16][choice];
  }

  cudaError_t AllowSharedMemory(int bytes) const {
    for (const auto& rows : {plain, zeros}) {
      for (int i = 0; i < kScaleKinds; ++i) {
        for (const auto& kernels : rows[i].kernel) {
          for (const Kernel kernel : kernels) {
            if (kernel == nullptr) continue;
            const cudaError_t error = cudaFuncSetAttribute(
                kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
            if (error != cudaSuccess) return error;
          }
        }
      }
    }
    return cudaSuccess;
  }
};

// A Family has the type Kernel and a function that fills in the heights:
//   template <int kCodes, ScaleKind kScale, bool kZeros, typename T>
//   static void Fill(Kernel (&kernels)[kTileMChoices]);
template <typename Family, int kCodes, ScaleKind kScale, bool kZeros = false>
void AddKernels(KernelTable<typename Family::Kernel>& table) {
  auto& row = (kZeros ? table.zeros : table.plain)[static_cast<int>(kScale)];
  Family::template Fill<kCodes, kScale, kZeros, __half>(row.kernel[0]);
  Family::template Fill<kCodes, kScale, kZeros, __nv_bfloat16>(row.kernel[1]);
}

// The kinds of scales that DescribeTiles lets through.
template <typename Family, int kCodes>
KernelTable<typename Family::Kernel> MakeKernelTable() {
  KernelTable<typename Family::Kernel> table = {};
  constexpr bool kZeros = kCodes == kNumberCodes;
  AddKernels<Family, kCodes, ScaleKind::kRow, kZeros>(table);
  if constexpr (kCodes != kTernaryCodes && !kZeros) {
    AddKernels<Family, kCodes, ScaleKind::kE4m4>(table);
  }
  if constexpr (kCodes == 4 || kZeros) {
    AddKernels<Family, kCodes, ScaleKind::kFloat16, kZeros>(table);
    AddKernels<Family, kCodes, ScaleKind::kBFloat16, kZeros>(table);
    AddKernels<Family, kCodes, ScaleKind::kFloat32, kZeros>(table);
  }
  return table;
}

struct PrefillArguments;
using DecodeKernel = void (*)(GemmArguments);
using PrefillKernel = void (*)(PrefillArguments);

// By TileLayout::codes.
template <int kCodes>
const KernelTable<DecodeKernel>& DecodeKernels();
template <int kCodes>
const KernelTable<PrefillKernel>& PrefillKernels();

inline constexpr int kCodeKinds[] = {kTernaryCodes, 2, 3, 4, 5, kNumberCodes};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_LAUNCH_KERNEL_TABLE_CUH_
