// SPDX-License-Identifier: Apache-2.0
//
// From operands to a kernel of one request of the table.

#include <algorithm>

#include "kernels/cuda/launch/decode_launch.cuh"
#include "kernels/cuda/launch/decode_request.cuh"
#include "kernels/cuda/launch/decode_request.h"

namespace qgemm::cuda {
namespace {

constexpr int kTileM = 8;

const KernelTable<DecodeRequestKernel>& TableOf(int codes) {
  using Table = const KernelTable<DecodeRequestKernel>& (*)();
  constexpr Table kTables[] = {DecodeRequestKernels<kTernaryCodes>,
                               DecodeRequestKernels<2>, DecodeRequestKernels<3>,
                               DecodeRequestKernels<4>,
                               DecodeRequestKernels<5>};
  return kTables[codes - kTernaryCodes]();
}

// Threads of a block that multiply, which bring the rows.
int64_t BringingThreads(const TileLayout& layout) {
  const TileConfig& config = layout.tile_config;
  return int64_t{NGroups(config.n_tiles)} * config.k_warps * kGroupWarps * 32;
}

}  // namespace

cudaError_t PrepareDecodeRequest(const Device& device) {
  const int bytes = static_cast<int>(
      std::min<int64_t>(device.traits.shared_bytes_per_block, kMaxBlockBytes));
  for (const int codes : kCodeKinds) {
    const cudaError_t error = TableOf(codes).AllowSharedMemory(bytes);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

bool OffersDecodeRequest(const Device& device,
                         const DecodeRequestOperands& operands) {
  const GemmOperands& gemm = operands.gemm;
  const TileLayout& layout = gemm.weights.layout;
  return device.encode_tensor_map != nullptr && gemm.m <= kTileM &&
         IsLegal(gemm) && gemm.lda == layout.k &&
         gemm.m * gemm.lda * 2 <=
             BringingThreads(layout) * kRequestLoads * 16 &&
         reinterpret_cast<uintptr_t>(operands.host_a) % 16 == 0;
}

cudaError_t LaunchDecodeRequest(const Device& device,
                                const DecodeRequestOperands& operands,
                                cudaStream_t stream) {
  if (!OffersDecodeRequest(device, operands)) return cudaErrorInvalidValue;
  const GemmOperands& gemm = operands.gemm;
  const TileLayout& layout = gemm.weights.layout;
  const DecodeRequestKernel kernel =
      TableOf(layout.codes).Find(layout, gemm.a_type, /*choice=*/0);
  if (kernel == nullptr) return cudaErrorInvalidValue;
  DecodeLaunch set_up;
  const cudaError_t error = SetUp(device, gemm, kTileM, /*parts=*/1, set_up);
  if (error != cudaSuccess) return error;
  RequestArguments request = {};
  request.gemm = set_up.args;
  request.host_a = operands.host_a;
  request.a_bytes = static_cast<int>(gemm.m * gemm.lda * 2);
  request.progress = operands.progress;
  request.stamps = operands.stamps;
  cudaLaunchConfig_t launch = {};
  launch.gridDim = dim3(set_up.blocks);
  launch.blockDim = dim3(set_up.threads);
  launch.dynamicSmemBytes = set_up.shared_bytes;
  launch.stream = stream;
  cudaLaunchAttribute cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {static_cast<unsigned>(layout.tile_config.split_k),
                            1, 1};
  launch.attrs = &cluster;
  launch.numAttrs = layout.tile_config.split_k > 1 ? 1 : 0;
  return cudaLaunchKernelEx(&launch, kernel, request);
}

}  // namespace qgemm::cuda
