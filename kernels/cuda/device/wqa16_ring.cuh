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

// Where a warp stands in the ring, stage by stage.
class RingReader {
 public:
  __device__ __forceinline__ RingReader(const Ring& ring, const Turns& turns)
      : slots_(ring.slots),
        step_(turns.step),
        slot_(turns.first),
        full_(KeepInRegister(ring.Full(turns.first))) {}

  __device__ __forceinline__ int slot() const { return slot_; }
  // Returns once the current slot is full.
  __device__ __forceinline__ void Wait() const { BarrierWait(full_, parity_); }
  // The barrier that gives the current slot back.
  __device__ __forceinline__ uint32_t empty() const { return full_ + 8; }
  // Goes on to the warp's next stage; if there is none, stays. There are at
  // least as many slots as warps that take turns.
  __device__ __forceinline__ void Next(bool is_there) {
    const int step = is_there ? step_ : 0;
    slot_ += step;
    full_ += step * kBarrierBytes;
    if (slot_ >= slots_) {
      slot_ -= slots_;
      full_ -= slots_ * kBarrierBytes;
      parity_ ^= 1;
    }
  }

 private:
  const int slots_;
  const int step_;
  int slot_;
  uint32_t full_;  // the current slot's barrier
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
        stages_(work.end - work.begin) {}

#if __CUDA_ARCH__ >= 900
  // Called by one lane. Weights do not wait for the kernel before this one.
  __device__ __forceinline__ void Run() const {
    PrefetchTensorMap(args_.a_map);
    const int first = stages_ < ring_.slots ? stages_ : ring_.slots;
    for (int stage = 0; stage < first; ++stage) AskForWeights(stage, stage);
    WaitForPreviousKernel();
    for (int stage = 0; stage < first; ++stage) AskForActivations(stage, stage);
    int slot = 0;
    uint32_t parity = 0;
    for (int stage = first; stage < stages_; ++stage) {
      BarrierWait(ring_.Empty(slot), parity);
      AskForWeights(stage, slot);
      AskForActivations(stage, slot);
      if (++slot == ring_.slots) {
        slot = 0;
        parity ^= 1;
      }
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

  __device__ __forceinline__ void AskForActivations(int stage, int slot) const {
    const uint32_t to = activations_ + slot * kActivationBytes;
    const int column = (column_tile_ + stage) * 128;
    CopyTensor(to, args_.a_map, column, 0, ring_.Full(slot));
    CopyTensor(to + kActivationBytes / 2, args_.a_map, column + 64, 0,
               ring_.Full(slot));
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
      const int token = i >> 4;
      const int piece = i & 15;
      const int64_t column = (column_tile_ + stage) * 128LL + piece * 8;
      const int64_t left = token < args_.m ? (args_.k - column) * 2 : 0;
      const uint32_t valid = left <= 0 ? 0 : left < 16 ? left : 16;
      const char* a = static_cast<const char*>(args_.a);
      CopyAsync16(to + piece / 8 * (kActivationBytes / 2) +
                      token * kPanelTokenBytes + ((piece ^ token) & 7) * 16,
                  valid == 0 ? a : a + (token * args_.lda + column) * 2, valid);
    }
  }

  const GemmArguments& args_;
  const Ring ring_;
  const uint32_t weights_;
  const uint32_t activations_;
  const uint8_t* const tiles_;
  const int column_tile_;
  const int stages_;
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_WQA16_RING_CUH_
