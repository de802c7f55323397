// SPDX-License-Identifier: Apache-2.0
//
// The ring of stages in shared memory and the warp that fills it.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_WQA16_RING_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_WQA16_RING_CUH_

#include <cstdint>

#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/device/wqa16_arguments.cuh"

namespace qgemm::cuda {

// Arrivals at a full barrier: of the lane that asks the copy engine, or of
// all lanes, which copy themselves.
#if __CUDA_ARCH__ >= 900
inline constexpr int kProducerArrivals = 1;
#else
inline constexpr int kProducerArrivals = 32;
#endif

// Lanes of a warp that say that it is done with a slot: one for all, behind a
// barrier of the warp. racecheck knows no order through another lane.
#ifdef QGEMM_RACECHECK
inline constexpr int kReleasingLanes = 32;
#else
inline constexpr int kReleasingLanes = 1;
#endif

// Gives a slot back; 0 is none. The lanes have read it by then. No branch
// around the barrier of the warp: the assembler would make the multiplications
// wait for each other.
__device__ __forceinline__ void ReleaseSlot(uint32_t empty_barrier, int lane) {
  __syncwarp();
  if (empty_barrier != 0 && lane < kReleasingLanes) {
    BarrierArrive(empty_barrier);
  }
}

// What a stage's slot is and when it may be written again.
struct Ring {
  uint32_t barriers;  // full and empty of slot 0
  int slots;

  __device__ __forceinline__ uint32_t Full(int slot) const {
    return barriers + slot * kBarrierBytes;
  }
  __device__ __forceinline__ uint32_t Empty(int slot) const {
    return Full(slot) + 8;
  }
};

// Which stages a warp takes: first, first + step, ... of `stages`.
struct Turns {
  int first;
  int step;
  int stages;
};

// Whether a warp has slots enough to hold one and await another while a third
// is filled. The ring then has a stage of nothing at the end for each turn, so
// that a warp may load ahead without asking whether there is more.
__device__ __forceinline__ bool HasSlotsAhead(const Ring& ring,
                                              int column_warps) {
#if __CUDA_ARCH__ >= 900
  return ring.slots >= 3 * column_warps;
#else
  return false;
#endif
}

// Where a warp stands in the ring, stage by stage.
class RingReader {
 public:
  __device__ __forceinline__ RingReader(const Ring& ring, const Turns& turns)
      : barriers_(KeepInRegister(ring.barriers)),
        slots_(ring.slots),
        step_(turns.step),
        slot_(turns.first) {}

  __device__ __forceinline__ int slot() const { return slot_; }
  // Returns once the current slot is full.
  __device__ __forceinline__ void Wait() const { BarrierWait(full(), parity_); }
  // The barrier that gives the current slot back.
  __device__ __forceinline__ uint32_t empty() const { return full() + 8; }
  // There are at least as many slots as warps that take turns.
  __device__ __forceinline__ void Next() {
    slot_ += step_;
    if (slot_ >= slots_) {
      slot_ -= slots_;
      parity_ ^= 1;
    }
  }

 private:
  __device__ __forceinline__ uint32_t full() const {
    return barriers_ + slot_ * kBarrierBytes;
  }

  const uint32_t barriers_;
  const int slots_;
  const int step_;
  int slot_;
  uint32_t parity_ = 0;
};

// Brings the stages of a block in their order. A token's 64 columns of a
// panel are 128 bytes, whose pieces of 16 stand in the order of the 128-byte
// swizzle: piece p of token t at p ^ (t % 8). Tokens from m on and columns
// from k on are zero.
template <int kTokenTiles>
class Producer {
 public:
  static constexpr int kTokens = kTokenTiles * 8;
  static constexpr int kActivationBytes = kTokens * kTokenBytes;
  // Lanes that ask the copy engine, each of a warp of its own. Of many tokens
  // the copies rather than the asking take the time, and one lane keeps them in
  // order.
  static constexpr int kLanes = kTokenTiles < 8 ? 3 : 1;

  __device__ __forceinline__ Producer(const GemmArguments& args,
                                      const BlockWork& work, const Ring& ring,
                                      uint32_t weights, uint32_t activations)
      : args_(args),
        ring_(ring),
        weights_(weights),
        activations_(activations),
        tiles_(args.tiles + (work.row_block * args.column_tiles + work.begin) *
                                args.stage_bytes),
        column_tile_(work.begin),
        first_token_(work.first_token),
        stages_(work.end - work.begin) {}

#if __CUDA_ARCH__ >= 900
  // Called by those lanes: lane 0 brings weights, the others a panel of
  // activations each; or lane 0 all. Weights do not wait for the kernel before
  // this one.
  __device__ __forceinline__ void Run(int lane) const {
    if (lane == 0) {
      BringWeights();
    } else {
      WaitForPreviousKernel();
      Bring(0, stages_,
            [&](int stage, int slot) { AskForPanel(stage, slot, lane - 1); });
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
  __device__ __forceinline__ void AskForWeights(int stage, int slot) const {
    const uint32_t full = ring_.Full(slot);
    BarrierArriveExpect(full, args_.stage_bytes + kActivationBytes);
    CopyBulk(weights_ + slot * args_.stage_bytes,
             tiles_ + int64_t{stage} * args_.stage_bytes, args_.stage_bytes,
             full);
  }

  __device__ __forceinline__ void AskForPanels(int stage, int slot) const {
    AskForPanel(stage, slot, 0);
    AskForPanel(stage, slot, 1);
  }

  __device__ __forceinline__ void AskForPanel(int stage, int slot,
                                              int q) const {
    CopyTensor(activations_ + (slot * 2 + q) * (kActivationBytes / 2),
               args_.a_map, (column_tile_ + stage) * 128 + q * 64, first_token_,
               ring_.Full(slot));
  }

  __device__ __forceinline__ void BringWeights() const {
    PrefetchTensorMap(args_.a_map);
    const bool all = kLanes == 1;
    const int first = all ? min(stages_, ring_.slots) : 0;
    for (int stage = 0; stage < first; ++stage) AskForWeights(stage, stage);
    if (all) {
      WaitForPreviousKernel();
      for (int stage = 0; stage < first; ++stage) AskForPanels(stage, stage);
    }
    const int more =
        HasSlotsAhead(ring_, args_.column_warps) ? args_.column_warps : 0;
    Bring(first, stages_ + more, [&](int stage, int slot) {
      if (stage >= stages_) {
        BarrierArrive(ring_.Full(slot));
        return;
      }
      AskForWeights(stage, slot);
      if (all) AskForPanels(stage, slot);
    });
  }

  // Calls ask(stage, slot) for the stages from `first` to `end`, each when its
  // slot is free.
  template <typename Ask>
  __device__ __forceinline__ void Bring(int first, int end,
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
    const uint8_t* from = tiles_ + int64_t{stage} * args_.stage_bytes;
    for (int i = lane * 16; i < args_.stage_bytes; i += 512) {
      CopyAsync16(to + i, from + i, 16);
    }
  }

  __device__ __forceinline__ void CopyActivations(int stage, int slot,
                                                  int lane) const {
    const uint32_t to = activations_ + slot * kActivationBytes;
    for (int i = lane; i < kTokens * 16; i += 32) {
      const int in_block = i >> 4;
      const int token = first_token_ + in_block;
      const int piece = i & 15;
      const int64_t column = (column_tile_ + stage) * 128LL + piece * 8;
      const int64_t left = token < args_.m ? (args_.k - column) * 2 : 0;
      const uint32_t valid = left <= 0 ? 0 : left < 16 ? left : 16;
      const char* a = static_cast<const char*>(args_.a);
      CopyAsync16(to + piece / 8 * (kActivationBytes / 2) +
                      in_block * kPanelTokenBytes +
                      ((piece ^ in_block) & 7) * 16,
                  valid == 0 ? a : a + (token * args_.lda + column) * 2, valid);
    }
  }

  const GemmArguments& args_;
  const Ring ring_;
  const uint32_t weights_;
  const uint32_t activations_;
  const uint8_t* const tiles_;
  const int column_tile_;
  const int first_token_;
  const int stages_;
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_WQA16_RING_CUH_
