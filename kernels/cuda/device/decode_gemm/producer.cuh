// SPDX-License-Identifier: Apache-2.0
//
// The warps of a decode block that bring pipeline stages by TMA, or by cp.async
// before sm_90.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_DECODE_GEMM_PRODUCER_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_DECODE_GEMM_PRODUCER_CUH_

#include <cstdint>

#include "kernels/cuda/device/gemm_arguments.cuh"
#include "kernels/cuda/device/pipeline.cuh"
#include "kernels/cuda/device/ptx.cuh"

namespace qgemm::cuda {

// The stages of a block's part of one GEMM.
class OneSource {
 public:
  __device__ __forceinline__ OneSource(const GemmArguments& args,
                                       const BlockWork& work)
      : tiles_(args.tiles +
               (work.n_block * args.k_tiles + work.begin) * args.stage_bytes),
        k_tile_(work.begin),
        stages_(work.end - work.begin) {}

  __device__ __forceinline__ int stages() const { return stages_; }
  __device__ __forceinline__ const uint8_t* Weights(int stage,
                                                    int stage_bytes) const {
    return tiles_ + int64_t{stage} * stage_bytes;
  }
  __device__ __forceinline__ int KTile(int stage) const {
    return k_tile_ + stage;
  }

 private:
  const uint8_t* const tiles_;
  const int k_tile_;
  const int stages_;
};

// Brings the stages of a block in their order. a row's 64 columns of a
// panel are 128 bytes, whose pieces of 16 stand in the order of the 128-byte
// swizzle: piece p of row of A t at p ^ (t % 8). Rows of A from m on and
// columns from k on are zero. `Wait` returns once activations may be read; a
// `Source` has the place of each stage.
template <int kMTiles, typename Wait, typename Source>
class DecodeProducer {
 public:
  static constexpr int kTileM = kMTiles * 8;
  static constexpr int kActivationBytes = kTileM * kStageRowBytes;
  // Lanes that ask TMA, each of a warp of its own. Of many rows of A
  // the copies rather than the asking take the time, and one lane keeps them in
  // order.
  static constexpr int kLanes = kMTiles < 8 ? 3 : 1;
  static_assert(kLanes < kGroupWarps, "a warp stays free for other work");

  __device__ __forceinline__ DecodeProducer(const GemmArguments& args,
                                            const BlockWork& work,
                                            const Ring& ring, uint32_t weights,
                                            uint32_t activations,
                                            const Wait& wait,
                                            const Source& source)
      : args_(args),
        wait_(wait),
        source_(source),
        ring_(ring),
        weights_(weights),
        activations_(activations),
        first_m_(work.first_m),
        stages_(source.stages()) {}

#if __CUDA_ARCH__ >= 900
  // Called by those lanes: lane 0 brings weights, the others a panel of
  // activations each; or lane 0 all. Weights do not wait for the kernel before
  // this one.
  __device__ __forceinline__ void Run(int lane) const {
    if (lane == 0) {
      LoadWeights();
    } else {
      wait_();
      ForEachStage(0, stages_, [&](int stage, int slot) {
        IssueActivationLoad(stage, slot, lane - 1);
      });
    }
  }
#else
  // Called by all lanes of a warp.
  __device__ __forceinline__ void Run(int lane) const {
    int slot = 0;
    uint32_t parity = 1;  // a fresh barrier's former phase counts as done
    for (int stage = 0; stage < stages_; ++stage) {
      BarrierWait(ring_.Empty(slot), parity);
      CopyWeights(stage, slot, lane);
      CopyActivations(stage, slot, lane);
      CopyAsyncArrive(ring_.Full(slot));
      if (++slot == ring_.slots) {
        slot = 0;
        parity ^= 1;
      }
    }
  }
#endif

 private:
  __device__ __forceinline__ void IssueWeightLoad(int stage, int slot) const {
    const uint32_t full = ring_.Full(slot);
    BarrierArriveExpect(full, args_.stage_bytes + kActivationBytes);
    CopyBulkOnce(weights_ + slot * args_.stage_bytes,
                 source_.Weights(stage, args_.stage_bytes), args_.stage_bytes,
                 full);
  }

  __device__ __forceinline__ void IssueActivationLoads(int stage,
                                                       int slot) const {
    IssueActivationLoad(stage, slot, 0);
    IssueActivationLoad(stage, slot, 1);
  }

  __device__ __forceinline__ void IssueActivationLoad(int stage, int slot,
                                                      int q) const {
    CopyTensor(activations_ + (slot * 2 + q) * (kActivationBytes / 2),
               args_.a_map, source_.KTile(stage) * 128 + q * 64, first_m_,
               ring_.Full(slot));
  }

  __device__ __forceinline__ void LoadWeights() const {
    PrefetchTensorMap(args_.a_map);
    const bool all = kLanes == 1;
    const int first = all ? min(stages_, ring_.slots) : 0;
    for (int stage = 0; stage < first; ++stage) IssueWeightLoad(stage, stage);
    if (all) {
      wait_();
      for (int stage = 0; stage < first; ++stage)
        IssueActivationLoads(stage, stage);
    }
    const int more = HasSlotsAhead(ring_, args_.k_warps) ? args_.k_warps : 0;
    ForEachStage(first, stages_ + more, [&](int stage, int slot) {
      if (stage >= stages_) {
        BarrierArrive(ring_.Full(slot));
        return;
      }
      IssueWeightLoad(stage, slot);
      if (all) IssueActivationLoads(stage, slot);
    });
  }

  // Calls ask(stage, slot) for the stages from `first` to `end`, each when its
  // slot is free.
  template <typename Ask>
  __device__ __forceinline__ void ForEachStage(int first, int end,
                                               const Ask& ask) const {
    int slot = first < ring_.slots ? first : 0;
    uint32_t parity = first < ring_.slots ? 1 : 0;  // of a fresh slot: done
    for (int stage = first; stage < end; ++stage) {
      BarrierWait(ring_.Empty(slot), parity);
      ask(stage, slot);
      if (++slot == ring_.slots) {
        slot = 0;
        parity ^= 1;
      }
    }
  }

  __device__ __forceinline__ void CopyWeights(int stage, int slot,
                                              int lane) const {
    const uint32_t to = weights_ + slot * args_.stage_bytes;
    const uint8_t* from = source_.Weights(stage, args_.stage_bytes);
    for (int i = lane * 16; i < args_.stage_bytes; i += 512) {
      CopyAsync16(to + i, from + i, 16);
    }
  }

  __device__ __forceinline__ void CopyActivations(int stage, int slot,
                                                  int lane) const {
    const uint32_t to = activations_ + slot * kActivationBytes;
    for (int i = lane; i < kTileM * 16; i += 32) {
      const int in_block = i >> 4;
      const int m_row = first_m_ + in_block;
      const int piece = i & 15;
      const int64_t column = source_.KTile(stage) * 128LL + piece * 8;
      const int64_t left = m_row < args_.m ? (args_.k - column) * 2 : 0;
      const uint32_t valid = left <= 0 ? 0 : left < 16 ? left : 16;
      const char* a = static_cast<const char*>(args_.a);
      CopyAsync16(to + piece / 8 * (kActivationBytes / 2) +
                      in_block * kPanelRowBytes + ((piece ^ in_block) & 7) * 16,
                  valid == 0 ? a : a + (m_row * args_.lda + column) * 2, valid);
    }
  }

  const GemmArguments& args_;
  const Wait wait_;
  const Source source_;
  const Ring ring_;
  const uint32_t weights_;
  const uint32_t activations_;
  const int first_m_;
  const int stages_;
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_DECODE_GEMM_PRODUCER_CUH_
