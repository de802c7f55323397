// SPDX-License-Identifier: Apache-2.0
//
// The kernels of decode GEMMs of one request, of the codes QGEMM_CODES
// (TileLayout::codes), which BUILD defines.

#include "kernels/cuda/launch/decode_request.cuh"

namespace qgemm::cuda {
namespace {

struct DecodeRequestFamily {
  using Kernel = DecodeRequestKernel;

  template <int kCodes, ScaleKind kScale, bool kZeros, typename T>
  static void Fill(Kernel (&kernels)[kTileMChoices]) {
    kernels[0] = DecodeRequest<kCodes, kScale, kZeros, T>;
  }
};

}  // namespace

template <int kCodes>
const KernelTable<DecodeRequestKernel>& DecodeRequestKernels() {
  static const auto table = MakeKernelTable<DecodeRequestFamily, kCodes>();
  return table;
}

template const KernelTable<DecodeRequestKernel>&
DecodeRequestKernels<QGEMM_CODES>();

}  // namespace qgemm::cuda
