// SPDX-License-Identifier: Apache-2.0
//
// The two warps that ask TMA for a wide block's activations and
// weights, each through a ring of its own, tile after tile.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_PREFILL_GEMM_PRODUCER_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_PREFILL_GEMM_PRODUCER_CUH_

#include <cstdint>

#include "kernels/cuda/device/prefill_gemm/arguments.cuh"
#include "kernels/cuda/device/ptx.cuh"

namespace qgemm::cuda {

// Called by one lane of a warp that brings operands.
__device__ __forceinline__ void SetUpRing(const Ring& ring) {
  for (int slot = 0; slot < ring.slots; ++slot) {
    BarrierInit(ring.Full(slot), 1);
    BarrierInit(ring.Empty(slot), kPrefillConsumers / 32 * kReleasingLanes);
  }
  BarrierInitFence();
}

// Called by one thread, for tiles of kTileM rows of A. Panels are in the
// 128-byte swizzle; rows of A from m on and columns from k on are zero.
template <int kTileM>
__device__ __forceinline__ void LoadActivations(const PrefillArguments& args,
                                                uint32_t shared) {
  constexpr int kPanelBytes = kTileM * kPanelRowBytes;
  const Ring ring = PanelRing(args, shared);
  PrefetchTensorMap(args.gemm.a_map);
  GridDependencyWait();
  RingPlace place = {0, 1};  // a fresh barrier's former phase counts as done
  const int tiles = TileCount(args.grid);
  const int panels = args.gemm.k_tiles * 2;
  for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int m_row = TileAt(args.grid, tile).m_block * kTileM;
    for (int panel = 0; panel < panels; ++panel) {
      const uint32_t full = ring.Full(place.slot);
      BarrierWait(ring.Empty(place.slot), place.parity);
      BarrierArriveExpect(full, kPanelBytes);
      CopyTensor(shared + args.smem.panels_offset + place.slot * kPanelBytes,
                 args.gemm.a_map, panel * 64, m_row, full);
      place.Next(ring.slots);
    }
  }
}

// Row tiles of a block that follow each other in memory. A lane has one run;
// there are eight at most.
class TileRun {
 public:
  __device__ __forceinline__ TileRun(const PrefillArguments& args, int n_block,
                                     int lane)
      : args_(args) {
    const int begin = n_block * kPrefillNTiles;
    const int layer_tiles = static_cast<int>((args.gemm.n + 15) / 16);
    const int left = layer_tiles - begin;
    tiles_of_block_ = left < kPrefillNTiles ? left : kPrefillNTiles;
    const int in_layer = args.layer_n_tiles;
    const int layer_block = begin / in_layer + lane;
    const int block_begin = layer_block * in_layer;
    const int first = begin > block_begin ? begin : block_begin;
    const int end = min(begin + tiles_of_block_, block_begin + in_layer);
    tiles_ = end - first;
    place_ = first - begin;
    place_in_layer_ = first - block_begin;
    from_ = args.gemm.tiles + static_cast<int64_t>(layer_block) *
                                  args.gemm.k_tiles * args.layer_stage_bytes;
  }

  // Bytes of a stage, of all runs.
  __device__ __forceinline__ int stage_bytes() const {
    return tiles_of_block_ *
           (args_.gemm.tile_code_bytes + args_.gemm.tile_scale_bytes +
            args_.tile_zero_bytes);
  }

  // Asks for the run's part of the stage at column tile `stage`.
  __device__ __forceinline__ void Copy(int stage, uint32_t to,
                                       uint32_t full) const {
    if (tiles_ <= 0) return;
    const uint8_t* from =
        from_ + static_cast<int64_t>(stage) * args_.layer_stage_bytes;
    const int parts[3] = {args_.gemm.tile_code_bytes,
                          args_.gemm.tile_scale_bytes, args_.tile_zero_bytes};
#pragma unroll
    for (const int bytes : parts) {
      if (bytes > 0) {
        CopyBulk(to + place_ * bytes, from + place_in_layer_ * bytes,
                 tiles_ * bytes, full);
      }
      to += kPrefillNTiles * bytes;
      from += args_.layer_n_tiles * bytes;
    }
  }

 private:
  const PrefillArguments& args_;
  const uint8_t* from_;  // the layer's row block
  int tiles_of_block_;
  int tiles_;
  int place_;  // of its first tile in the block
  int place_in_layer_;
};

// Called by all lanes of a warp. Weights do not wait for the kernel before this
// one.
__device__ __forceinline__ void LoadWeights(const PrefillArguments& args,
                                            uint32_t shared, int lane) {
  const Ring ring = StageRing(args, shared);
  RingPlace place = {0, 1};
  const int tiles = TileCount(args.grid);
  for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const TileRun run(args, TileAt(args.grid, tile).n_block, lane);
    for (int stage = 0; stage < args.gemm.k_tiles; ++stage) {
      const uint32_t full = ring.Full(place.slot);
      BarrierWait(ring.Empty(place.slot), place.parity);
      if (lane == 0) BarrierArriveExpect(full, run.stage_bytes());
      __syncwarp();
      run.Copy(
          stage,
          shared + args.smem.stages_offset + place.slot * args.gemm.stage_bytes,
          full);
      place.Next(ring.slots);
    }
  }
  // Padding stage: consumers prefetch one stage past the end.
  BarrierWait(ring.Empty(place.slot), place.parity);
  if (lane == 0) BarrierArrive(ring.Full(place.slot));
}

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_PREFILL_GEMM_PRODUCER_CUH_
