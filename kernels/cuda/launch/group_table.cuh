// SPDX-License-Identifier: Apache-2.0
//
// The kernels of groups of decode GEMMs, by kind of codes.

#ifndef QGEMM_KERNELS_CUDA_LAUNCH_GROUP_TABLE_CUH_
#define QGEMM_KERNELS_CUDA_LAUNCH_GROUP_TABLE_CUH_

#include "kernels/cuda/device/decode_gemm/group_arguments.cuh"
#include "kernels/cuda/launch/kernel_table.cuh"

namespace qgemm::cuda {

using DecodeGroupKernel = void (*)(GroupArguments);

// By TileLayout::codes and the type of the activations, those of which the
// table has. A layer may have no kernel.
template <int kCodes, typename T>
const KernelTable<DecodeGroupKernel>& DecodeGroupKernels();
template <int kCodes, typename T>
const KernelTable<DecodeGroupKernel>& DecodePartsKernels();

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_LAUNCH_GROUP_TABLE_CUH_
