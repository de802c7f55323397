// SPDX-License-Identifier: Apache-2.0
//
// The warps that multiply, a row tile each: add the products of their stages up
// and write the sums. Four warps always go the same way.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_WQA16_CONSUMER_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_WQA16_CONSUMER_CUH_

#include "kernels/cuda/device/wqa16_arguments.cuh"
#include "kernels/cuda/device/wqa16_block_adder.cuh"
#include "kernels/cuda/device/wqa16_chain_adder.cuh"
#include "kernels/cuda/device/wqa16_ring.cuh"
#include "kernels/cuda/device/wqa16_tile_multiplier.cuh"

namespace qgemm::cuda {

template <int kCodes, ScaleKind kScale, bool kZeros, typename T,
          int kTokenTiles>
class Consumer {
 public:
  // A warp for which there is no row tile multiplies the last for nobody.
  __device__ __forceinline__ Consumer(const GemmArguments& args,
                                      const SharedPlan& plan,
                                      const char* shared, int tile)
      : exists_(tile < args.row_tiles),
        tile_(exists_ ? tile : args.row_tiles - 1),
        tiles_(args, plan, shared, tile_) {
#pragma unroll
    for (float& sum : sums_) sum = 0;
  }

  // Adds the products of those stages up.
  __device__ __forceinline__ void Run(const Ring& ring, const Turns& turns) {
    if constexpr (Tiles::Tile::kFolded || kScale == ScaleKind::kRow) {
      ChainAdder<Tiles>(tiles_, sums_).Run(ring, turns, kChainStages);
    } else {
      if (tiles_.args().groups == 1) {
        ChainAdder<Tiles>(tiles_, sums_).Run(ring, turns, 1);
      } else {
        BlockAdder<Tiles>(tiles_, sums_).Run(ring, turns);
      }
    }
  }

  // Writes the sums to [token][row of the row block].
  __device__ __forceinline__ void StoreSums(float* all) const {
    if (!exists_) return;
    const int lane = tiles_.lane();
    const int stride = SumStride(tiles_.args().row_tiles);
#pragma unroll
    for (int i = 0; i < Tiles::kSums; ++i) {
      const int m = (i >> 2) * 8 + (lane & 3) * 2 + (i & 1);
      const int row = tile_ * 16 + (lane >> 2) + (i >> 1 & 1) * 8;
      all[m * stride + row] = sums_[i];
    }
  }

 private:
  using Tiles = TileMultiplier<kCodes, kScale, kZeros, T, kTokenTiles>;
  // Tensor cores truncate as they add, so that they add 1024 columns at most.
  static constexpr int kChainStages = 8;

  const bool exists_;
  const int tile_;
  const Tiles tiles_;
  float sums_[Tiles::kSums];
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_WQA16_CONSUMER_CUH_
