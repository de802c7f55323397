// SPDX-License-Identifier: Apache-2.0
//
// The ring of stages in shared memory and the two warps that fill it.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_WQA16_RING_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_WQA16_RING_CUH_

#include <cstdint>

#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/device/wqa16_arguments.cuh"

namespace qgemm::cuda {

// Arrivals at a full barrier: of the lane that asked for the weights, and of
// all lanes that bring activations.
#if __CUDA_ARCH__ >= 900
inline constexpr int kProducerArrivals = 1 + 32;
#else
inline constexpr int kProducerArrivals = 32 + 32;
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
  // Calls load(stage, slot) for every stage, once its slot is free.
  template <typename Load>
  __device__ __forceinline__ void Produce(int stages, const Load& load) const {
    int slot = 0;
    uint32_t parity = 1;  // a fresh barrier's former phase counts as done
    for (int stage = 0; stage < stages; ++stage) {
      BarrierWait(Empty(slot), parity);
      load(stage, slot);
      if (++slot == slots) {
        slot = 0;
        parity ^= 1;
      }
    }
  }
};

__device__ __forceinline__ void ProduceWeights(const GemmArguments& args,
                                               const BlockWork& work,
                                               const Ring& ring,
                                               uint32_t weights, int lane) {
  const uint8_t* from =
      args.tiles +
      (work.row_block * args.column_tiles + work.begin) * args.stage_bytes;
  ring.Produce(work.end - work.begin, [&](int stage, int slot) {
    const uint32_t to = weights + slot * args.stage_bytes;
    const uint8_t* stage_from = from + int64_t{stage} * args.stage_bytes;
#if __CUDA_ARCH__ >= 900
    if (lane == 0) {
      BarrierArriveExpect(ring.Full(slot), args.stage_bytes);
      CopyBulk(to, stage_from, args.stage_bytes, ring.Full(slot));
    }
#else
    for (int i = lane * 16; i < args.stage_bytes; i += 512) {
      CopyAsync16(to + i, stage_from + i, 16);
    }
    CopyAsyncArrive(ring.Full(slot));
#endif
  });
}

// Columns beyond k become zeros. A lane copies the same 16 bytes of every
// second token.
template <int kTokenTiles>
__device__ __forceinline__ void ProduceActivations(const GemmArguments& args,
                                                   const BlockWork& work,
                                                   const Ring& ring,
                                                   uint32_t activations,
                                                   int lane) {
  constexpr int kTokens = kTokenTiles * 8;
  const int64_t first = work.begin * 128LL + (lane & 15) * 8;
  const int first_token = lane >> 4;
  const char* from =
      static_cast<const char*>(args.a) + (first_token * args.lda + first) * 2;
  const int64_t two_tokens = args.lda * 4;
  const uint32_t to =
      activations + first_token * kTokenBytes + (lane & 15) * 16;
  WaitForPreviousKernel();
  ring.Produce(work.end - work.begin, [&](int stage, int slot) {
    const int64_t left = (args.k - first - stage * 128LL) * 2;
    const uint32_t valid = left <= 0 ? 0 : left < 16 ? left : 16;
    const char* token_from =
        left <= 0 ? static_cast<const char*>(args.a) : from + stage * 256LL;
    const uint32_t token_to = to + slot * kTokens * kTokenBytes;
#pragma unroll
    for (int i = 0; i < kTokens / 2; ++i) {
      if (first_token + 2 * i >= args.m) break;
      CopyAsync16(token_to + 2 * i * kTokenBytes, token_from, valid);
      token_from += left <= 0 ? 0 : two_tokens;
    }
    CopyAsyncArrive(ring.Full(slot));
  });
}

// Tokens of the ring that no copy writes become zeros; all `threads` take
// part.
template <int kTokenTiles>
__device__ __forceinline__ void ClearIdleTokens(const GemmArguments& args,
                                                uint32_t activations,
                                                int thread, int threads) {
  constexpr int kTokens = kTokenTiles * 8;
  const int idle = (kTokens - args.m) * 16;
  for (int i = thread; i < idle * args.slots; i += threads) {
    const int slot = i / idle;
    const int token = args.m + i % idle / 16;
    StoreSharedZeros(activations + (slot * kTokens + token) * kTokenBytes +
                     i % 16 * 16);
  }
}

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_WQA16_RING_CUH_
