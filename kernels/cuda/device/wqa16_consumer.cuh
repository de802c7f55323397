// SPDX-License-Identifier: Apache-2.0
//
// The warps that multiply, a row tile each: decode a stage's codes, multiply
// them with its activations, add up. Four warps always go the same way.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_WQA16_CONSUMER_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_WQA16_CONSUMER_CUH_

#include <cstdint>

#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/device/wqa16_arguments.cuh"
#include "kernels/cuda/device/wqa16_multiply.cuh"
#include "kernels/cuda/device/wqa16_ring.cuh"
#include "kernels/cuda/device/wqa16_tile.cuh"

namespace qgemm::cuda {

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
      : ring_(ring), step_(turns.step), slot_(turns.first) {}

  // The current stage's slot, once it is full.
  __device__ __forceinline__ int Wait() const {
    BarrierWait(ring_.Full(slot_), parity_);
    return slot_;
  }
  // The barrier that gives the current slot back.
  __device__ __forceinline__ uint32_t empty() const {
    return ring_.Empty(slot_);
  }
  // There are at least as many slots as warps that take turns.
  __device__ __forceinline__ void Next() {
    slot_ += step_;
    if (slot_ >= ring_.slots) {
      slot_ -= ring_.slots;
      parity_ ^= 1;
    }
  }

 private:
  const Ring& ring_;
  const int step_;
  int slot_;
  uint32_t parity_ = 0;
};

template <int kBits, ScaleKind kScale, bool kZeros, typename T, int kTokenTiles>
class Consumer {
 public:
  // A warp for which there is no row tile multiplies the last for nobody.
  __device__ __forceinline__ Consumer(const GemmArguments& args,
                                      const SharedPlan& plan,
                                      const char* shared, int tile)
      : args_(args),
        plan_(plan),
        shared_(shared),
        lane_(threadIdx.x % 32),
        exists_(tile < args.row_tiles),
        tile_(exists_ ? tile : args.row_tiles - 1) {
#pragma unroll
    for (int i = 0; i < kSums; ++i) sums_[i] = 0;
  }

  // Adds the products of those stages up.
  __device__ __forceinline__ void Run(const Ring& ring, const Turns& turns) {
    if constexpr (Tile::kFolded || kScale == ScaleKind::kRow) {
      RunChains(ring, turns, kChainStages);
    } else {
      if (args_.groups == 1) {
        RunChains(ring, turns, 1);
      } else {
        RunBlocks(ring, turns);
      }
    }
  }

  // Writes the sums to [token][row of the row block].
  __device__ __forceinline__ void StoreSums(float* all) const {
    if (!exists_) return;
    const int stride = SumStride(args_.row_tiles);
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      const int m = (i >> 2) * 8 + (lane_ & 3) * 2 + (i & 1);
      const int row = tile_ * 16 + (lane_ >> 2) + (i >> 1 & 1) * 8;
      all[m * stride + row] = sums_[i];
    }
  }

 private:
  using Tile = StageTile<kBits, kScale, kZeros, T>;
  static constexpr int kSums = kTokenTiles * 4;
  static constexpr int kPanelBytes = kTokenTiles * 8 * kPanelTokenBytes;
  // Tensor cores truncate as they add, so that they add 1024 columns at most.
  static constexpr int kChainStages = 8;
  // Blocks of 32 columns that are decoded and multiplied at a time: as many as
  // there are registers for.
  static constexpr int kBlocks = kTokenTiles == 8 ? 1 : 2;

  __device__ __forceinline__ Tile LoadTile(int slot) const {
    Tile tile;
    tile.Load(args_, shared_ + plan_.weights + slot * args_.stage_bytes, tile_,
              lane_);
    return tile;
  }

  __device__ __forceinline__ TokenPanel PanelOf(int slot, int q) const {
    return TokenPanel(SharedAddress(shared_) + plan_.activations +
                      (slot * 2 + q) * kPanelBytes);
  }

  __device__ __forceinline__ void Release(uint32_t empty_barrier) const {
    if (empty_barrier != 0 && lane_ == 0) BarrierArrive(empty_barrier);
  }

  __device__ __forceinline__ void Add(const float (&products)[kSums],
                                      float2 scales) {
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      const float scale = (i >> 1 & 1) == 0 ? scales.x : scales.y;
      sums_[i] = fmaf(products[i], scale, sums_[i]);
    }
  }

  // For layers whose scales change with every stage or less often: the tensor
  // cores add `chain_stages` stages, then their sum is scaled and added.
  __device__ __forceinline__ void RunChains(const Ring& ring,
                                            const Turns& turns,
                                            int chain_stages) {
    RingReader reader(ring, turns);
    // A warp that has one slot must give it back to get the next stage.
    const bool one_slot = ring.slots == turns.step;
    int stage = turns.first;
    while (stage < turns.stages) {
      const int left = stage + chain_stages * turns.step;
      const int end = left < turns.stages ? left : turns.stages;
      float products[kSums];
#pragma unroll
      for (int i = 0; i < kSums; ++i) products[i] = 0;
      uint32_t operands[2][kBlocks][2][4] = {};
      float2 scales = {1, 1};
      uint32_t before = 0;  // the barrier of the stage before
      for (; stage < end; stage += turns.step) {
        const int slot = reader.Wait();
        const Tile tile = LoadTile(slot);
        if constexpr (!Tile::kFolded) scales = tile.scales.OfBlock(args_, 0);
#pragma unroll
        for (int first = 0; first < 4; first += kBlocks) {
          WaitForSteps<1>();
          if (first == kBlocks) Release(before);
          auto& a = operands[first / kBlocks & 1];
          PinOperands(a);  // read by the tensor cores until here
          Chain(tile, first, PanelOf(slot, first / 2), a, products);
        }
        before = reader.empty();
        if (one_slot) {
          WaitForSteps<0>();
          Release(before);
          before = 0;
        }
        reader.Next();
      }
      WaitForSteps<0>();
      Release(before);
      PinOperands(operands[0]);
      PinOperands(operands[1]);
      PinRegisters(products);
      Add(products, scales);
    }
  }

  static __device__ __forceinline__ void PinOperands(
      uint32_t (&a)[kBlocks][2][4]) {
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      PinRegisters(a[b][0]);
      PinRegisters(a[b][1]);
    }
  }

  // products += kBlocks blocks of the tile, from block `first` on.
  __device__ __forceinline__ void Chain(const Tile& tile, int first,
                                        const TokenPanel& panel,
                                        uint32_t (&a)[kBlocks][2][4],
                                        float (&products)[kSums]) const {
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      tile.Decode(args_, first + b, shared_, lane_, a[b]);
    }
    PinOperands(a);
    PinRegisters(products);
    BeginSteps();
#pragma unroll
    for (int step = 0; step < 2 * kBlocks; ++step) {
      panel.template Multiply<T, kTokenTiles, true>(
          products, a[step >> 1][step & 1], 2 * (first & 1) + step);
    }
    CommitSteps();
  }

  // For layers with a scale for every 32 or 64 columns: each block of 32 has
  // products of its own. While kBlocks of them are multiplied the next are
  // decoded.
  __device__ __forceinline__ void RunBlocks(const Ring& ring,
                                            const Turns& turns) {
    RingReader reader(ring, turns);
    const bool one_slot = ring.slots == turns.step;
    float products[kBlocks][kSums];
#pragma unroll
    for (auto& block : products) {
#pragma unroll
      for (float& product : block) product = 0;
    }
    uint32_t operands[2][kBlocks][2][4] = {};
    float2 scales[kBlocks] = {};
    uint32_t before = 0;
    for (int stage = turns.first; stage < turns.stages; stage += turns.step) {
      const int slot = reader.Wait();
      const Tile tile = LoadTile(slot);
#pragma unroll
      for (int first = 0; first < 4; first += kBlocks) {
        auto& a = operands[first / kBlocks & 1];
        float2 next[kBlocks];
#pragma unroll
        for (int b = 0; b < kBlocks; ++b) {
          tile.Decode(args_, first + b, shared_, lane_, a[b]);
          next[b] = tile.scales.OfBlock(args_, first + b);
        }
        WaitForSteps<0>();
        PinOperands(operands[1 - (first / kBlocks & 1)]);
        AddBlocks(products, scales);
        if (first == 0) Release(before);
        MultiplyBlocks(a, PanelOf(slot, first / 2), first & 1, products);
#pragma unroll
        for (int b = 0; b < kBlocks; ++b) scales[b] = next[b];
      }
      before = reader.empty();
      if (one_slot) {
        WaitForSteps<0>();
        Release(before);
        before = 0;
      }
      reader.Next();
    }
    WaitForSteps<0>();
    PinOperands(operands[(4 / kBlocks - 1) & 1]);
    AddBlocks(products, scales);
  }

  __device__ __forceinline__ void AddBlocks(float (&products)[kBlocks][kSums],
                                            const float2 (&scales)[kBlocks]) {
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      PinRegisters(products[b]);
      Add(products[b], scales[b]);
    }
  }

  // Starts kBlocks blocks, the first of them block `first` of the panel.
  __device__ __forceinline__ void MultiplyBlocks(
      uint32_t (&a)[kBlocks][2][4], const TokenPanel& panel, int first,
      float (&products)[kBlocks][kSums]) {
    PinOperands(a);
#pragma unroll
    for (auto& block : products) PinRegisters(block);
    BeginSteps();
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      panel.template Multiply<T, kTokenTiles, false>(products[b], a[b][0],
                                                     2 * (first + b));
    }
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      panel.template Multiply<T, kTokenTiles, true>(products[b], a[b][1],
                                                    2 * (first + b) + 1);
    }
    CommitSteps();
  }

  const GemmArguments& args_;
  const SharedPlan& plan_;
  const char* const shared_;
  const int lane_;
  const bool exists_;
  const int tile_;
  float sums_[kSums];
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_WQA16_CONSUMER_CUH_
