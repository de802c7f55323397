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

template <int kCodes, ScaleKind kScale, bool kZeros, typename T,
          int kTokenTiles>
class Consumer {
 public:
  // A warp for which there is no row tile multiplies the last for nobody.
  __device__ __forceinline__ Consumer(const GemmArguments& args,
                                      const SharedPlan& plan,
                                      const char* shared, int tile)
      : args_(args),
        plan_(plan),
        shared_(shared),
        lane_(KeepInRegister(threadIdx.x % 32)),
        exists_(tile < args.row_tiles),
        tile_(exists_ ? tile : args.row_tiles - 1),
        place_(Tile::PlaceOf(args, plan.weights, tile_, lane_)),
        panel_(SharedAddress(shared) + plan.activations) {
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
  using Tile = StageTile<kCodes, kScale, kZeros, T>;
  static constexpr int kSums = kTokenTiles * 4;
  static constexpr int kPanelBytes = kTokenTiles * 8 * kPanelTokenBytes;
  // Tensor cores truncate as they add, so that they add 1024 columns at most.
  static constexpr int kChainStages = 8;
  // Blocks of 32 columns that are decoded and multiplied at a time: as many as
  // there are registers for.
  static constexpr int kBlocks = kTokenTiles == 8 ? 1 : 2;
  // Codes are loaded before the stage before is done with, where the warps
  // rather than memory bound the time.
  static constexpr bool kLoadsAhead =
      kTokenTiles < 8 && (kCodes <= 3 || kZeros);

  // With 2 bits an entry of the table is four weights, and there are registers
  // for those of the blocks to come.
  static constexpr bool kLooksAhead =
      kLoadsAhead && Tile::kFolded && kCodes == 2;
  using Operands = uint32_t[kBlocks][2][4];

  __device__ __forceinline__ Tile LoadTile(int slot) const {
    Tile tile;
    tile.Load(shared_ + slot * args_.stage_bytes, place_);
    return tile;
  }

  __device__ __forceinline__ TokenPanel PanelOf(int slot, int q) const {
    return panel_.At(slot * 2 * kPanelBytes).At(q * kPanelBytes);
  }

  __device__ __forceinline__ void Release(uint32_t empty_barrier) const {
    ReleaseSlot(empty_barrier, lane_);
  }

  __device__ __forceinline__ void Add(const float (&products)[kSums],
                                      float2 scales) {
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      const float scale = (i >> 1 & 1) == 0 ? scales.x : scales.y;
      sums_[i] = fmaf(products[i], scale, sums_[i]);
    }
  }

  // A stage in shared memory; its codes in registers.
  struct Stage {
    Tile tile;
    int slot;
    uint32_t empty;  // the barrier that gives the slot back
  };

  __device__ __forceinline__ Stage LoadStage(const RingReader& reader) const {
    Stage stage;
    stage.slot = reader.slot();
    stage.empty = reader.empty();
    reader.Wait();
    stage.tile = LoadTile(stage.slot);
    return stage;
  }

  // For layers whose scales change with every stage or less often: the tensor
  // cores add `chain_stages` stages, then their sum is scaled and added.
  __device__ __forceinline__ void RunChains(const Ring& ring,
                                            const Turns& turns,
                                            int chain_stages) {
    int left = (turns.stages - turns.first + turns.step - 1) / turns.step;
    if (left <= 0) return;
    RingReader reader(ring, turns);
    if (kLoadsAhead && HasSlotsAhead(ring, turns.step)) {
      Stage stage = LoadStage(reader);
      Operands entries;
      if constexpr (kLooksAhead) LookUp(stage.tile, 0, entries);
      while (left > 0) {
        const int stages = left < chain_stages ? left : chain_stages;
        left -= stages;
        if constexpr (kLooksAhead) {
          RunChainLookingAhead(reader, stages, stage, entries);
        } else {
          RunChainAhead(reader, stages, stage);
        }
      }
      return;
    }
    // A warp that has one slot must give it back to get the next stage.
    const bool one_slot = ring.slots == turns.step;
    while (left > 0) {
      const int stages = left < chain_stages ? left : chain_stages;
      left -= stages;
      RunChain(reader, stages, one_slot);
    }
  }

  // Loads a stage's codes before the one before is done with. `stage` is the
  // first, and then the first of the next chain.
  __device__ __forceinline__ void RunChainAhead(RingReader& reader, int stages,
                                                Stage& stage) {
    float products[kSums];
#pragma unroll
    for (int i = 0; i < kSums; ++i) products[i] = 0;
    Operands operands[2] = {};
    float2 scales = {1, 1};
    uint32_t before = 0;  // the barrier of the stage before
    for (int i = 0; i < stages; ++i) {
      WaitForSteps<1>();
      Multiply(stage, 0, operands, products);
      WaitForSteps<1>();
      Release(before);
      if constexpr (!Tile::kFolded) {
        scales = stage.tile.scales.OfBlock(args_, 0);
      }
      reader.Next();
      const Stage next = LoadStage(reader);
      Multiply(stage, kBlocks, operands, products);
      before = stage.empty;
      stage = next;
    }
    WaitForSteps<0>();
    Release(before);
    PinOperands(operands[0]);
    PinOperands(operands[1]);
    PinRegisters(products);
    Add(products, scales);
  }

  // As RunChainAhead; and looks entries up before the multiplication before
  // theirs. `entries` are those of the stage's first blocks, and then of the
  // next chain's.
  __device__ __forceinline__ void RunChainLookingAhead(RingReader& reader,
                                                       int stages, Stage& stage,
                                                       Operands& entries) {
    float products[kSums];
#pragma unroll
    for (int i = 0; i < kSums; ++i) products[i] = 0;
    Operands operands[2] = {};
    uint32_t before = 0;  // the barrier of the stage before
    for (int i = 0; i < stages; ++i) {
      WaitForSteps<1>();
      MultiplyScales(stage.tile, 0, entries, operands[0]);
      LookUp(stage.tile, kBlocks, entries);
      MultiplyOperands(stage, 0, operands[0], products);
      WaitForSteps<1>();
      Release(before);
      MultiplyScales(stage.tile, kBlocks, entries, operands[1]);
      MultiplyOperands(stage, kBlocks, operands[1], products);
      before = stage.empty;
      reader.Next();
      stage = LoadStage(reader);
      LookUp(stage.tile, 0, entries);
    }
    WaitForSteps<0>();
    Release(before);
    PinOperands(operands[0]);
    PinOperands(operands[1]);
    PinRegisters(products);
    Add(products, make_float2(1, 1));
  }

  __device__ __forceinline__ void RunChain(RingReader& reader, int stages,
                                           bool one_slot) {
    float products[kSums];
#pragma unroll
    for (int i = 0; i < kSums; ++i) products[i] = 0;
    Operands operands[2] = {};
    float2 scales = {1, 1};
    uint32_t before = 0;  // the barrier of the stage before
    for (int i = 0; i < stages; ++i) {
      const Stage stage = LoadStage(reader);
      if constexpr (!Tile::kFolded) {
        scales = stage.tile.scales.OfBlock(args_, 0);
      }
#pragma unroll
      for (int first = 0; first < 4; first += kBlocks) {
        WaitForSteps<1>();
        if (first == kBlocks) Release(before);
        Multiply(stage, first, operands, products);
      }
      before = stage.empty;
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

  // products += kBlocks blocks of the stage, from block `first` on. The
  // operands of the blocks before the last are no longer read.
  __device__ __forceinline__ void Multiply(const Stage& stage, int first,
                                           Operands (&operands)[2],
                                           float (&products)[kSums]) const {
    Operands& a = operands[first / kBlocks & 1];
    PinOperands(a);  // read by the tensor cores until here
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      stage.tile.Decode(args_, first + b, shared_, lane_, a[b]);
    }
    MultiplyOperands(stage, first, a, products);
  }

  // Multiply in three parts: the table's entries of kBlocks blocks,
  __device__ __forceinline__ void LookUp(const Tile& tile, int first,
                                         Operands& entries) const {
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      tile.LookUp(first + b, shared_, lane_, entries[b]);
    }
    PinOperands(entries);
  }
  // what they become,
  __device__ __forceinline__ void MultiplyScales(const Tile& tile, int first,
                                                 const Operands& entries,
                                                 Operands& a) const {
    PinOperands(a);  // read by the tensor cores until here
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      tile.MultiplyScales(first + b, entries[b], a[b]);
    }
  }
  // and the multiplication.
  __device__ __forceinline__ void MultiplyOperands(
      const Stage& stage, int first, Operands& a,
      float (&products)[kSums]) const {
    const TokenPanel panel = PanelOf(stage.slot, first / 2);
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

  static __device__ __forceinline__ void PinOperands(Operands& a) {
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      PinRegisters(a[b][0]);
      PinRegisters(a[b][1]);
    }
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
    Operands operands[2] = {};
    float2 scales[kBlocks] = {};
    uint32_t before = 0;
    for (int stage = turns.first; stage < turns.stages; stage += turns.step) {
      reader.Wait();
      const int slot = reader.slot();
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
      Operands& a, const TokenPanel& panel, int first,
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
  const LanePlace place_;
  const TokenPanel panel_;  // of slot 0
  float sums_[kSums];
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_WQA16_CONSUMER_CUH_
