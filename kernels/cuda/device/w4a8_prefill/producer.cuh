// SPDX-License-Identifier: Apache-2.0
//
// The two warps that ask TMA for a block's operands, in the order of its sums:
// panels of integers with their scales, and stages of weights.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_W4A8_PREFILL_PRODUCER_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_W4A8_PREFILL_PRODUCER_CUH_

#include <cstdint>

#include "kernels/cuda/device/prefill_gemm/producer.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/device/w4a8_prefill/arguments.cuh"

namespace qgemm::cuda {

// Called by one thread. Rows of A from m on and columns from k on are zero;
// scales of rows that have no room stay what they were.
template <int kTileM>
__device__ __forceinline__ void LoadQuantized(const W4A8PrefillArguments& args,
                                              uint32_t shared) {
  constexpr int kPanelBytes = kTileM * kPanelRowBytes;
  constexpr int kScaleBytes = kTileM * kQ8PanelScaleBytes;
  const PrefillArguments& prefill = args.prefill;
  const Ring ring = PanelRing(prefill, shared);
  const int64_t panel_scale_bytes =
      int64_t{args.scale_rows} * kQ8PanelScaleBytes;
  PrefetchTensorMap(prefill.gemm.a_map);
  GridDependencyWait();
  RingPlace place = {0, 1};  // a fresh barrier's former phase counts as done
  const W4A8Pieces pieces = PiecesOf(args);
  const int count = pieces.Count();
  for (int index = 0; index < count; ++index) {
    const W4A8Piece piece = pieces.At(index);
    const int m_row = TileAt(prefill.grid, piece.tile).m_block * kTileM;
    const int scale_bytes =
        min(args.scale_rows - m_row, kTileM) * kQ8PanelScaleBytes;
    const uint8_t* const scales = args.scales + m_row * kQ8PanelScaleBytes;
    ForEachColumnTile(args, piece, [&](int k_tile) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int panel = k_tile * 2 + half;
        const uint32_t full = ring.Full(place.slot);
        BarrierWait(ring.Empty(place.slot), place.parity);
        BarrierArriveExpect(full, kPanelBytes + scale_bytes);
        CopyTensor(
            shared + prefill.smem.panels_offset + place.slot * kPanelBytes,
            prefill.gemm.a_map, panel * kQ8PanelColumns, m_row, full);
        CopyBulk(shared + args.smem.scales_offset + place.slot * kScaleBytes,
                 scales + panel * panel_scale_bytes, scale_bytes, full);
        place.Next(ring.slots);
      }
    });
  }
}

// Called by all lanes of a warp. Weights do not wait for the kernel before this
// one.
__device__ __forceinline__ void LoadWeightsInOrder(
    const W4A8PrefillArguments& args, uint32_t shared, int lane) {
  const PrefillArguments& prefill = args.prefill;
  const Ring ring = StageRing(prefill, shared);
  RingPlace place = {0, 1};
  const W4A8Pieces pieces = PiecesOf(args);
  const int count = pieces.Count();
  for (int index = 0; index < count; ++index) {
    const W4A8Piece piece = pieces.At(index);
    const TileRun run(prefill, TileAt(prefill.grid, piece.tile).n_block, lane);
    ForEachColumnTile(args, piece, [&](int k_tile) {
      const uint32_t full = ring.Full(place.slot);
      BarrierWait(ring.Empty(place.slot), place.parity);
      if (lane == 0) BarrierArriveExpect(full, run.stage_bytes());
      __syncwarp();
      run.Copy(k_tile,
               shared + prefill.smem.stages_offset +
                   place.slot * prefill.gemm.stage_bytes,
               full);
      place.Next(ring.slots);
    });
  }
  // Padding stage: consumers prefetch one stage past the end.
  BarrierWait(ring.Empty(place.slot), place.parity);
  if (lane == 0) BarrierArrive(ring.Full(place.slot));
}

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_W4A8_PREFILL_PRODUCER_CUH_
