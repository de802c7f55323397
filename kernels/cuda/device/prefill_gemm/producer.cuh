// SPDX-License-Identifier: Apache-2.0
//
// The two warps that ask TMA for a wide block's activations and
// weights, each through a ring of its own, piece after piece.

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

// Called by one thread, for tiles of kTileM rows of A.
template <int kTileM>
class PanelLoader {
 public:
  __device__ __forceinline__ PanelLoader(const PrefillArguments& args,
                                         uint32_t shared)
      : args_(args),
        panels_(shared + args.smem.panels_offset),
        ring_(PanelRing(args, shared)) {}

  // The block's pieces, one after the other.
  __device__ __forceinline__ void Run() {
    PrefetchTensorMap(args_.gemm.a_map);
    const BlockPieces pieces(args_.schedule, PlannedBlock(args_));
    const int count = pieces.Count();
    GridDependencyWait();
    for (int index = 0; index < count; ++index) {
      const TilePiece piece = pieces.At(index);
      LoadActivations(piece);
      if (args_.pairs != 0) InviteSums();
      if (piece.end == args_.schedule.stages && piece.begin > 0) {
        LoadHanded(piece.tile);
      }
    }
  }

 private:
  static constexpr int kHalfM = kTileM / 2;
  static constexpr int kPanelBytes = kTileM * kPanelRowBytes;
  static constexpr int kSumPanels = kPrefillTileN * 4 / kPanelRowBytes;

  // Panels are in the 128-byte swizzle; rows of A from m on and columns from k
  // on are zero. Of a pair each block has the half of the rows that it stores
  // first.
  __device__ __forceinline__ void LoadActivations(const TilePiece& piece) {
    const int m_row = TileAt(args_.grid, piece.tile).m_block * kTileM;
    const int first = FirstStage(args_, piece) * 2;
    const int end = first + (piece.end - piece.begin) * 2;
    for (int panel = first; panel < end; ++panel) {
      const uint32_t full = Take();
      if (args_.pairs == 0) {
        CopyTensor(slot(), args_.gemm.a_map, panel * 64, m_row, full);
      } else {
        const int own = m_row + RankOf(args_) * kHalfM;
        const int other = m_row + (RankOf(args_) ^ 1) * kHalfM;
        CopyTensor(slot(), args_.gemm.a_map, panel * 64, own, full);
        CopyTensor(slot() + kPanelBytes / 2, args_.gemm.a_map, panel * 64,
                   other, full);
      }
      Next();
    }
  }

  // Takes slots for the sums that the pair's other block has of this one's
  // half, and tells it the first. It has read the one before when sums have
  // come there: if the slot was taken again, they did.
  __device__ __forceinline__ void InviteSums() {
    const RingPlace first = {place_.slot, place_.parity ^ 1};
    for (int i = 0; i < kSumPanels / 2; ++i) {
      Take();
      Next();
    }
    if (taken_since_ <= ring_.slots) {
      BarrierWait(ring_.Full(invited_.slot), invited_.parity);
    }
    invited_ = first;
    taken_since_ = kSumPanels / 2;
    const uint32_t invitation = ClusterAddress(
        panels_ - args_.smem.panels_offset + args_.smem.invitation_offset,
        RankOf(args_) ^ 1);
    SendWord(invitation + 8, first.slot, invitation);
  }

  // The sums that blocks before this one handed over, through the same ring.
  __device__ __forceinline__ void LoadHanded(int tile) {
    const int end = PlannedBlock(args_);
    for (int of = FirstBlockOf(args_.schedule, tile); of < end; ++of) {
      const int block = HandingBlock(args_, of);
      unsigned* const word = HandedWord(args_, block);
      AwaitCount(word, kPrefillConsumers / 32);
      *word = 0;  // for the next launch
      AsyncGlobalFence();
      const uint8_t* from = HandedSums<kTileM>(args_, block);
      for (int i = 0; i < kSumPanels >> args_.pairs; ++i) {
        const uint32_t full = Take();
        CopyBulk(slot(), from, kPanelBytes, full);
        from += kPanelBytes;
        Next();
      }
    }
  }

  // Waits until the slot is empty, and expects a panel's bytes there.
  __device__ __forceinline__ uint32_t Take() const {
    const uint32_t full = ring_.Full(place_.slot);
    BarrierWait(ring_.Empty(place_.slot), place_.parity);
    BarrierArriveExpect(full, kPanelBytes);
    return full;
  }
  __device__ __forceinline__ void Next() {
    place_.Next(ring_.slots);
    ++taken_since_;
  }
  __device__ __forceinline__ uint32_t slot() const {
    return panels_ + place_.slot * kPanelBytes;
  }

  const PrefillArguments& args_;
  const uint32_t panels_;
  const Ring ring_;
  RingPlace place_ = {0, 1};  // a fresh barrier's former phase counts as done
  // The first slot that sums were last invited to, and how many slots were
  // taken from it on: more than there are where nobody was invited.
  RingPlace invited_ = {0, 0};
  int taken_since_ = kMaxPrefillPanels + 1;
};

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
  const BlockPieces pieces(args.schedule, PlannedBlock(args));
  const int count = pieces.Count();
  for (int index = 0; index < count; ++index) {
    const TilePiece piece = pieces.At(index);
    const TileRun run(args, TileAt(args.grid, piece.tile).n_block, lane);
    const int first = FirstStage(args, piece);
    const int end = first + piece.end - piece.begin;
    for (int stage = first; stage < end; ++stage) {
      const uint32_t full = ring.Full(place.slot);
      BarrierWait(ring.Empty(place.slot), place.parity);
      if (lane == 0) BarrierArriveExpect(full, run.stage_bytes());
      __syncwarp();
      run.Copy(
          min(stage, args.gemm.k_tiles - 1),
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
