// SPDX-License-Identifier: Apache-2.0
//
// From operands to a decode kernel of the table.

#include <algorithm>

#include "base/host_device.h"
#include "kernels/cuda/launch/decode_launch.cuh"
#include "kernels/cuda/launch/gemm.h"
#include "kernels/cuda/launch/kernel_table.cuh"

namespace qgemm::cuda {
namespace {

const KernelTable<DecodeKernel>& TableOf(int codes) {
  using Table = const KernelTable<DecodeKernel>& (*)();
  constexpr Table kTables[] = {DecodeKernels<kTernaryCodes>,
                               DecodeKernels<2>,
                               DecodeKernels<3>,
                               DecodeKernels<4>,
                               DecodeKernels<5>,
                               DecodeKernels<kNumberCodes>};
  return kTables[codes - kTernaryCodes]();
}

}  // namespace

cudaError_t PrepareDecodeGemm(const Device& device) {
  const int bytes = static_cast<int>(
      std::min<int64_t>(device.traits.shared_bytes_per_block, kMaxBlockBytes));
  for (const int codes : kCodeKinds) {
    const cudaError_t error = TableOf(codes).AllowSharedMemory(bytes);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

cudaError_t LaunchDecodeGemm(const Device& device, const GemmOperands& operands,
                             cudaStream_t stream) {
  if (!IsLegal(operands)) return cudaErrorInvalidValue;
  const TileLayout& layout = operands.weights.layout;
  const int choice = MTileChoice(operands.m);
  const DecodeKernel kernel =
      TableOf(layout.codes).Find(layout, operands.a_type, choice);
  if (kernel == nullptr) return cudaErrorInvalidValue;
  DecodeLaunch set_up;
  const cudaError_t error =
      SetUp(device, operands, kMTileCounts[choice] * 8, /*parts=*/1, set_up);
  if (error != cudaSuccess) return error;
  cudaLaunchConfig_t launch = {};
  launch.gridDim = dim3(set_up.blocks, CeilDiv(operands.m, kDecodeBlockM));
  launch.blockDim = dim3(set_up.threads);
  launch.dynamicSmemBytes = set_up.shared_bytes;
  launch.stream = stream;
  const LaunchAttributes attributes(layout.tile_config.split_k, launch);
  return cudaLaunchKernelEx(&launch, kernel, set_up.args);
}

}  // namespace qgemm::cuda
