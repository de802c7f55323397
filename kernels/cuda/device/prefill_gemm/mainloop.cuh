// SPDX-License-Identifier: Apache-2.0
//
// The warps of a wide block that multiply, a row tile by a tile's rows of A
// each. Blocks of 32 columns are decoded two ahead, while the tensor cores
// multiply, also where a sum of the tensor cores, or a tile of C, comes to its
// end.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_PREFILL_GEMM_MAINLOOP_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_PREFILL_GEMM_MAINLOOP_CUH_

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/device/pipeline.cuh"
#include "kernels/cuda/device/prefill_gemm/arguments.cuh"
#include "kernels/cuda/device/prefill_gemm/epilogue.cuh"
#include "kernels/cuda/device/prefill_gemm/float16_scales.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/device/weight_tile.cuh"
#include "kernels/cuda/device/wgmma.cuh"

namespace qgemm::cuda {

#if QGEMM_HAS_WGMMA

template <int kCodes, ScaleKind kScale, bool kZeros, typename T, int kTileM>
class PrefillMainloop {
 public:
  // `warp` is known to the compiler to be the same for all lanes.
  __device__ __forceinline__ PrefillMainloop(const PrefillArguments& args,
                                             char* shared, int warp)
      : args_(args),
        shared_(shared),
        warp_(warp),
        lane_(KeepInRegister(threadIdx.x % 32)),
        place_(Tile::PlaceOf(args.gemm, args.smem.stages_offset, warp, lane_)),
        panels_(SwizzledDescriptor(SharedAddress(shared) +
                                   args.smem.panels_offset)),
        store_(args, shared, warp / kGroupWarps,
               threadIdx.x % (kGroupWarps * 32)),
        panel_(PanelRing(args, SharedAddress(shared)), KSlice{0, 1, 0}),
        stage_(StageRing(args, SharedAddress(shared)), KSlice{0, 1, 0}) {}

  // Multiplies the block's pieces; stores tiles, and hands parts over.
  __device__ __forceinline__ void Run() {
    const BlockPieces pieces(args_.schedule, PlannedBlock(args_));
    const int count = pieces.Count();
    LoadStage();
#pragma unroll
    for (int block = 0; block < 2; ++block) {
      LookUp(block);
      FinishBlock(block);
    }
    for (int index = 0; index < count; ++index) {
      const TilePiece piece = pieces.At(index);
      const OutputTile at = TileAt(args_.grid, piece.tile);
      const RowFinish finish = FinishOf(at.n_block);
      if constexpr (kOneChain) {
        MultiplyStages(piece.end - piece.begin);
        Deliver(piece, at, finish, products_);
      } else {
        float sums[kSums];
        SumChains(piece.end - piece.begin, sums);
        Deliver(piece, at, finish, sums);
      }
    }
  }

 private:
  static constexpr bool kHasFloat16Scales = kScale == ScaleKind::kFloat16;
  using Tile = std::conditional_t<kHasFloat16Scales,
                                  Float16ScaledTile<kCodes, kZeros, T>,
                                  StageTile<kCodes, kScale, kZeros, T>>;
  static constexpr bool kGrouped = !Tile::kFolded && kScale != ScaleKind::kRow;
  // Entries that nothing is done to would be looked up into the operand itself,
  // which the tensor cores still read.
  static constexpr bool kLooksAhead = Tile::kFolded;
  static constexpr bool kOneChain = kTileM > 128;
  static_assert(!kGrouped || !kOneChain, "a chain has one scale");
  // Tensor cores truncate as they add, so that they add 1024 columns at most.
  static constexpr int kChainStages = kGrouped ? 1 : 8;
  static constexpr int kSums = kTileM / 2;
  static constexpr int kVectors = kSums / 4;
  static constexpr int kPanelUnits = kTileM * kPanelRowBytes / 16;
  static constexpr int kPanelVectors = kPanelUnits / kPrefillConsumers;

  // The sums of a piece go to C, or to the block that ends the tile; of a pair
  // each block's half of them.
  __device__ __forceinline__ void Deliver(const TilePiece& piece,
                                          const OutputTile& at,
                                          const RowFinish& finish,
                                          float (&sums)[kSums]) {
    if (args_.pairs != 0) Exchange(sums);
    if (piece.end < args_.schedule.stages) {
      HandOver(sums);
      return;
    }
    if (piece.begin > 0) {
      AddPanels(PlannedBlock(args_) - FirstBlockOf(args_.schedule, piece.tile),
                sums);
    }
    store_.Store(sums, finish, at);
  }

  // Sends the pair's other block the second half of the sums, and adds those
  // that it sends to the first.
  __device__ __forceinline__ void Exchange(float (&sums)[kSums]) {
    const uint32_t shared = SharedAddress(shared_);
    AwaitWord(shared + args_.smem.invitation_offset, invited_);
    invited_ ^= 1;
    int slot = *reinterpret_cast<const volatile int*>(
        shared_ + args_.smem.invitation_offset + 8);
    const uint32_t other = ClusterAddress(shared, RankOf(args_) ^ 1);
#pragma unroll
    for (int first = kVectors / 2; first < kVectors; first += kPanelVectors) {
      const uint32_t to = other + args_.smem.panels_offset +
                          (slot * kPanelUnits + threadIdx.x) * 16;
      const uint32_t full =
          other + args_.smem.barriers_offset + slot * kBarrierBytes;
#pragma unroll
      for (int i = 0; i < kPanelVectors; ++i) {
        const float* const four = &sums[(first + i) * 4];
        SendFloats(to + i * kPrefillConsumers * 16,
                   {four[0], four[1], four[2], four[3]}, full);
      }
      slot = slot + 1 == args_.smem.panels ? 0 : slot + 1;
    }
    AddPanels(1, sums);
  }

  __device__ __forceinline__ void HandOver(const float (&sums)[kSums]) const {
    float4* const to =
        reinterpret_cast<float4*>(HandedSums<kTileM>(args_, blockIdx.x)) +
        threadIdx.x;
#pragma unroll
    for (int i = 0; i < kSums; i += 4) {
      if (i == kSums / 2 && args_.pairs != 0) break;
      to[i / 4 * kPrefillConsumers] = {sums[i], sums[i + 1], sums[i + 2],
                                       sums[i + 3]};
    }
    AsyncGlobalFence();  // TMA reads them
    __syncwarp();
    if (lane_ == 0) ReleaseCount(HandedWord(args_, blockIdx.x));
  }

  // sums += those of `parts` other blocks, which come as panels.
  __device__ __forceinline__ void AddPanels(int parts, float (&sums)[kSums]) {
    for (int part = 0; part < parts; ++part) {
#pragma unroll
      for (int first = 0; first < kVectors; first += kPanelVectors) {
        if (first == kVectors / 2 && args_.pairs != 0) break;
        panel_.Wait();
        const float4* const from = reinterpret_cast<const float4*>(
                                       shared_ + args_.smem.panels_offset) +
                                   panel_.slot() * kPanelUnits + threadIdx.x;
#pragma unroll
        for (int i = 0; i < kPanelVectors; ++i) {
          const float4 four = from[i * kPrefillConsumers];
          float* const to = &sums[(first + i) * 4];
          to[0] += four.x, to[1] += four.y;
          to[2] += four.z, to[3] += four.w;
        }
        Release(panel_.empty());
        panel_.Next();
      }
    }
  }

  // The next `stages` stages, which the tensor cores add in parts.
  __device__ __forceinline__ void SumChains(int stages, float (&sums)[kSums]) {
#pragma unroll
    for (float& sum : sums) sum = 0;
    for (int stage = 0; stage < stages;) {
      const int end = min(stage + kChainStages, stages);
      float2 scales = {args_.gemm.factor, args_.gemm.factor};
      if constexpr (kGrouped) scales = scales_;
      MultiplyStages(end - stage);
#pragma unroll
      for (int i = 0; i < kSums; ++i) {
        sums[i] =
            fmaf(products_[i], (i & 2) == 0 ? scales.x : scales.y, sums[i]);
      }
      stage = end;
    }
  }

  // products_ = the next `stages` stages. Two blocks of the first are decoded
  // already, and at the end those of the stage after them are.
  __device__ __forceinline__ void MultiplyStages(int stages) {
    uint32_t before = 0;  // gives the panel before back
    for (int stage = 0; stage < stages; ++stage) {
      MultiplyStage(stage > 0, before);
    }
    WgmmaWait<0>();
    Release(before);
    PinOperands(operands_[2]);
    PinOperands(operands_[3]);
    PinRegisters(products_);
  }

  // A block is decoded while the two before it are multiplied, its entries
  // looked up before the multiplication of the third, which read its operands,
  // is waited for.
  __device__ __forceinline__ void MultiplyStage(int add, uint32_t& before) {
    panel_.Wait();
    Multiply(operands_[0], 0, add);
    LookUp(2);
    WgmmaWait<2>();
    FinishBlock(2);
    Multiply(operands_[1], 4, 1);
    LookUp(3);
    const uint32_t first = panel_.empty();
    panel_.Next();
    WgmmaWait<2>();
    Release(before);
    FinishBlock(3);
    panel_.Wait();
    Multiply(operands_[2], 0, 1);
    NextStage();
    LookUp(0);
    WgmmaWait<2>();
    FinishBlock(0);
    Multiply(operands_[3], 4, 1);
    LookUp(1);
    before = panel_.empty();
    panel_.Next();
    WgmmaWait<2>();
    Release(first);
    FinishBlock(1);
  }

  // Gives the stage back and loads the next one; after the last, the padding
  // stage.
  __device__ __forceinline__ void NextStage() {
    Release(stage_.empty());
    stage_.Next();
    LoadStage();
  }

  __device__ __forceinline__ void LoadStage() {
    stage_.Wait();
    tile_.Load(shared_ + stage_.slot() * args_.gemm.stage_bytes, place_);
    if constexpr (kGrouped) scales_ = tile_.scales.OfBlock(args_.gemm, 0);
  }

  __device__ __forceinline__ void Release(uint32_t empty_barrier) const {
    ReleaseSlot(empty_barrier, lane_);
  }

  __device__ __forceinline__ void LookUp(int block) {
    if constexpr (!kLooksAhead) return;
    if constexpr (kHasFloat16Scales) {
      tile_.LookUp(args_, block, shared_, lane_, entries_);
    } else {
      tile_.LookUp(block, shared_, lane_, entries_);
    }
    PinOperands(entries_);
  }
  __device__ __forceinline__ void FinishBlock(int block) {
    PinOperands(operands_[block]);  // read by the tensor cores until here
    if constexpr (kHasFloat16Scales) {
      PinOperands(entries_);
      tile_.MultiplyScales(args_, block, entries_, operands_[block]);
    } else if constexpr (kLooksAhead) {
      PinOperands(entries_);
      tile_.MultiplyScales(block, entries_, operands_[block]);
    } else {
      tile_.DecodeOfOneZero(block, shared_, lane_, operands_[block]);
    }
  }

  // products_ = (add ? products_ : 0) + a times 32 columns of the panel, whose
  // first are `units` of 16 bytes from its start.
  __device__ __forceinline__ void Multiply(uint32_t (&a)[2][4], int units,
                                           int add) {
    PinOperands(a);
    const SharedDescriptor from =
        panels_.At(panel_.slot() * kPanelUnits).Advanced(units);
    WgmmaFence();
    Wgmma<T, kTileM>::Run(products_, a[0], from.value, add);
    Wgmma<T, kTileM>::Run(products_, a[1], from.Advanced(2).value, 1);
    WgmmaCommit();
  }

  static __device__ __forceinline__ void PinOperands(uint32_t (&a)[2][4]) {
    PinRegisters(a[0]);
    PinRegisters(a[1]);
  }

  // Factor and bias of the lane's two rows in that row block.
  __device__ __forceinline__ RowFinish FinishOf(int n_block) const {
    const GemmArguments& gemm = args_.gemm;
    const float factor = kGrouped || kOneChain ? gemm.factor : 1.0f;
    RowFinish finish = {{factor, factor}, {0, 0}};
    const int64_t n = static_cast<int64_t>(n_block) * kPrefillTileN +
                      warp_ * 16 + (lane_ >> 2);
    if (gemm.row_scales != nullptr) {
      if (n < gemm.n) finish.factor.x *= gemm.row_scales[n];
      if (n + 8 < gemm.n) finish.factor.y *= gemm.row_scales[n + 8];
    }
    if (gemm.bias != nullptr) {
      if (n < gemm.n) finish.bias.x = gemm.bias[n];
      if (n + 8 < gemm.n) finish.bias.y = gemm.bias[n + 8];
    }
    return finish;
  }

  const PrefillArguments& args_;
  char* const shared_;
  const int warp_;
  const int lane_;
  const LanePlace place_;
  const SharedDescriptor panels_;  // of slot 0
  const SmemTransposeEpilogue<kCodes, kTileM> store_;
  RingReader panel_;
  RingReader stage_;
  Tile tile_;
  float2 scales_ = {1, 1};  // of the stage in tile_
  uint32_t invited_ = 0;    // parity of the next invitation
  uint32_t entries_[2][4] = {};
  uint32_t operands_[4][2][4] = {};  // of the blocks of a stage
  float products_[kSums] = {};
};

#endif  // QGEMM_HAS_WGMMA

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_PREFILL_GEMM_MAINLOOP_CUH_
