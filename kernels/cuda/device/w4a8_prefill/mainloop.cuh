// SPDX-License-Identifier: Apache-2.0
//
// The warps that multiply in mode A8 for many rows: a row tile by a tile's rows
// of A each. Dots of 32 columns are whole numbers that fp16 operands and fp32
// sums of tensor cores hold exactly; each is scaled and added as the kernel for
// few rows does it, in the order of its blocks, its warps and its clusters.
//
// A unit is a block of 32 columns and 64 rows of A. While the tensor cores work
// at one, the warp scales and adds the one before and decodes the next block.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_W4A8_PREFILL_MAINLOOP_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_W4A8_PREFILL_MAINLOOP_CUH_

#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/cuda/device/decode.cuh"
#include "kernels/cuda/device/pipeline.cuh"
#include "kernels/cuda/device/prefill_gemm/epilogue.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/device/w4a8_prefill/arguments.cuh"
#include "kernels/cuda/device/wgmma.cuh"

namespace qgemm::cuda {

#if QGEMM_HAS_WGMMA

// The A operands of 16 columns from a lane's word of them, as 16 (q - 8) in
// fp16: a code under the bits of 1024 is 1024 + q in the low nibble of a byte,
// 1024 + 16 q in the high one. Columns stand as in Q8PanelLayout.
__device__ __forceinline__ void DecodeWord(uint32_t word, uint32_t (&a)[4]) {
  constexpr uint32_t kLow = 0x000f000f;
  constexpr uint32_t kHigh = 0x00f000f0;
  const auto with_base = [](uint32_t x, uint32_t mask) {
    constexpr uint32_t kBase = 0x64006400;  // 1024, twice
    uint32_t result;                        // (x & mask) | kBase
    asm("lop3.b32 %0, %1, %2, %3, 0xea;"
        : "=r"(result)
        : "r"(x), "r"(mask), "r"(kBase));
    return reinterpret_cast<const __half2&>(result);
  };
  const auto bits = [](__half2 x) {
    return reinterpret_cast<const uint32_t&>(x);
  };
  const __half2 sixteen = __float2half2_rn(16);
  const __half2 low_base = __float2half2_rn(-16 * (1024 + 8));
  const __half2 high_base = __float2half2_rn(-(1024 + 16 * 8));
  const uint32_t other = word >> 8;  // of rows g + 8
  a[0] = bits(__hfma2(with_base(word, kLow), sixteen, low_base));
  a[1] = bits(__hfma2(with_base(other, kLow), sixteen, low_base));
  a[2] = bits(__hadd2(with_base(word, kHigh), high_base));
  a[3] = bits(__hadd2(with_base(other, kHigh), high_base));
}

template <int kTileM>
class W4A8PrefillMainloop {
 public:
  // `warp` is known to the compiler to be the same for all lanes.
  __device__ __forceinline__
  W4A8PrefillMainloop(const W4A8PrefillArguments& args, char* shared, int warp)
      : args_(args),
        shared_(shared),
        warp_(warp),
        lane_(KeepInRegister(threadIdx.x % 32)),
        column_scales_(
            KeepInRegister(args.smem.scales_offset + (lane_ & 3) * 16)),
        panels_(SwizzledDescriptor(SharedAddress(shared) +
                                   args.prefill.smem.panels_offset)),
        store_(args.prefill, shared, warp / kGroupWarps,
               threadIdx.x % (kGroupWarps * 32)),
        panel_(PanelRing(args.prefill, SharedAddress(shared)), KSlice{0, 1, 0}),
        stage_(StageRing(args.prefill, SharedAddress(shared)),
               KSlice{0, 1, 0}) {}

  // Multiplies the block's tiles of C and stores them.
  __device__ __forceinline__ void Run() {
    const int count = PiecesOf(args_).Count();
    LoadStage();
    DecodeBlock(0);
    for (int index = 0; index < count; ++index) {
      AddParts(PiecesOf(args_).At(index));
      // Again, so that multiplication leaves registers alone.
      const W4A8Piece piece = PiecesOf(args_).At(KeepInRegister(index));
      const OutputTile at = TileAt(args_.prefill.grid, piece.tile);
      if (piece.end < args_.prefill.gemm.k_tiles) {
        HandOver();
        continue;
      }
      const RowFinish finish = {{1, 1}, BiasOf(at.n_block)};
      const float factor = args_.prefill.gemm.factor;
#pragma unroll
      for (float& sum : sums_) sum *= factor;
      store_.Store(sums_, finish, at);
    }
  }

 private:
  static constexpr int kUnitRows = 64;
  static constexpr int kUnits = kTileM / kUnitRows;  // of a block
  static constexpr int kUnitSums = kUnitRows / 2;    // of a lane
  static constexpr int kSums = kTileM / 2;
  static constexpr int kPanelUnits = kTileM * kPanelRowBytes / 16;
  static constexpr int kUnitOffset = kUnitRows * kPanelRowBytes / 16;
  static constexpr int kScaleBytes = kTileM * kQ8PanelScaleBytes;
  // Bytes of the scales of 16 rows in a panel, and in a block of it.
  static constexpr int kRowsScaleBytes = kQ8ScaleRows * kQ8PanelScaleBytes;
  static constexpr int kBlockScaleBytes = kQ8ScaleRows * 4;
  // Bytes of a row tile's parts.
  static constexpr int kCodeBytes = kTileRows * kTileColumns / 2;
  static constexpr int kTileScaleBytes = kTileRows * kQ8TileBlocks * 2;
  static_assert(kPrefillNTiles * (kCodeBytes + kTileScaleBytes) ==
                    kW4A8PrefillStageBytes,
                "a stage is codes and scales");
  static_assert(kTileM % kUnitRows == 0 && kUnits <= 2,
                "units alternate between two sets of products");

  // The set of products of a unit.
  static __device__ constexpr int SetOf(int block, int unit) {
    return (block * kUnits + unit) & 1;
  }

  // sums_ = those of the tile up to the piece's end.
  __device__ __forceinline__ void AddParts(const W4A8Piece& piece) {
    const W4A8KOrder order = KOrderOf(args_.prefill.gemm);
    for (int rank = 0; rank < order.split_k; ++rank) {
      for (int turn = 0; turn < order.k_warps; ++turn) {
        if (piece.begin == 0) {
          ClearSums();
        } else {
          TakeOver();
        }
        AddPart(args_.shares ? piece.end - piece.begin
                             : order.Stages(rank, turn));
        Join(order, rank, turn);
      }
    }
  }

  __device__ __forceinline__ void ClearSums() {
#pragma unroll
    for (float& sum : sums_) sum = 0;
  }

  // sums_ += those of a part of K. Its first block is decoded already, and at
  // the end that of the part after it is.
  __device__ __forceinline__ void AddPart(int stages) {
    for (int stage = 0; stage < stages; ++stage) AddStage();
  }

  // The tensor cores are done at its end: the assembler lets others read their
  // sums between two multiplications only where it sees both in one piece.
  __device__ __forceinline__ void AddStage() {
    const int first = panel_.slot();
    const uint32_t first_empty = panel_.empty();
    panel_.Wait();
    Start<0, 0>(first);
    StartRest<0>(first);
    DecodeBlock(1);
    StartNext<1>(first, first);
    StartRest<1>(first);
    DecodeBlock(2);
    panel_.Next();
    const int second = panel_.slot();
    panel_.Wait();
    StartNext<2>(first, second);
    ReleaseSlot(first_empty, lane_);
    StartRest<2>(second);
    DecodeBlock(3);
    StartNext<3>(second, second);
    StartRest<3>(second);
    ReleaseSlot(stage_.empty(), lane_);
    stage_.Next();
    LoadStage();
    DecodeBlock(0);
    Finish<0, 3, kUnits - 1>(second);
    ReleaseSlot(panel_.empty(), lane_);
    panel_.Next();
  }

  // Starts a block's first unit and finishes the last one of the block before,
  // whose panel is in slot `before`. The operands of that are free then.
  template <int kBlock>
  __device__ __forceinline__ void StartNext(int before, int slot) {
    Start<kBlock, 0>(slot);
    Finish<1, kBlock - 1, kUnits - 1>(before);
    PinOperands(operands_[(kBlock - 1) & 1]);
  }

  // Starts a block's other unit, if there is one, and finishes the first.
  template <int kBlock>
  __device__ __forceinline__ void StartRest(int slot) {
    if constexpr (kUnits == 2) {
      Start<kBlock, 1>(slot);
      Finish<1, kBlock, 0>(slot);
    }
  }

  // The tensor cores start products = operands times 64 rows of the panel.
  template <int kBlock, int kUnit>
  __device__ __forceinline__ void Start(int slot) {
    uint32_t(&a)[2][4] = operands_[kBlock & 1];
    float(&products)[kUnitSums] = products_[SetOf(kBlock, kUnit)];
    PinOperands(a);
    const SharedDescriptor from =
        panels_.At(slot * kPanelUnits)
            .Advanced(kUnit * kUnitOffset + (kBlock & 1) * 4);
    WgmmaFence();
    using Step = Wgmma<__half, kUnitRows>;
    Step::template Run<false>(products, a[0], from.value);
    Step::template Run<true>(products, a[1], from.Advanced(2).value);
    WgmmaCommit();
  }

  // sums_ += (products * d4) * d8, as the kernel for few rows rounds it, when
  // at most kPending units after this one are not done.
  template <int kPending, int kBlock, int kUnit>
  __device__ __forceinline__ void Finish(int slot) {
    constexpr int kVectors = kUnitRows / kQ8ScaleRows;
    float(&products)[kUnitSums] = products_[SetOf(kBlock, kUnit)];
    float(&sums)[kUnitSums] =
        reinterpret_cast<float(&)[kUnitSums]>(sums_[kUnit * kUnitSums]);
    const float2 d4 = d4_[kBlock & 1];
    const char* const from = shared_ + column_scales_ + slot * kScaleBytes +
                             kUnit * kVectors * kRowsScaleBytes +
                             (kBlock & 1) * kBlockScaleBytes;
    float4 d8[kVectors];
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      d8[i] = *reinterpret_cast<const float4*>(from + i * kRowsScaleBytes);
    }
    WgmmaWait<kPending>();
    PinRegisters(products);
#pragma unroll
    for (int i = 0; i < kUnitSums; ++i) {
      const float4& four = d8[i / 8];
      const float of_column = (i & 4) == 0 ? ((i & 1) == 0 ? four.x : four.y)
                                           : ((i & 1) == 0 ? four.z : four.w);
      const float scaled = products[i] * ((i & 2) == 0 ? d4.x : d4.y);
      sums[i] = fmaf(scaled, of_column, sums[i]);
    }
    PinRegisters(sums);
  }

  // Puts the sums of a part together with those before: (first + second turn)
  // + (third + fourth), then rank by rank. Sums that wait stand in shared
  // memory, those of each thread by themselves.
  __device__ __forceinline__ void Join(const W4A8KOrder& order, int rank,
                                       int turn) {
    if (turn % 2 == 1) AddKept(turn / 2);
    if (turn < order.k_warps - 1) {
      Keep(turn / 2);
      return;
    }
    if (turn >= 2) AddKept(0);
    if (rank > 0) AddKept(order.KeptOfRanks());
    if (rank < order.split_k - 1) Keep(order.KeptOfRanks());
  }

  // The word and the sums for a block that goes on from them.
  __device__ __forceinline__ unsigned* HandedWord(int block) const {
    return reinterpret_cast<unsigned*>(args_.handed) + block;
  }
  __device__ __forceinline__ float4* HandedSums(int block) const {
    return reinterpret_cast<float4*>(args_.handed +
                                     HandedSumsOffset(kTileM, block)) +
           threadIdx.x;
  }
  // Hands sums to the next block.
  __device__ __forceinline__ void HandOver() const {
    float4* const to = HandedSums(blockIdx.x + 1);
#pragma unroll
    for (int i = 0; i < kSums; i += 4) {
      to[i / 4 * kPrefillConsumers] = {sums_[i], sums_[i + 1], sums_[i + 2],
                                       sums_[i + 3]};
    }
    NamedBarrier(kConsumersBarrier, kPrefillConsumers);
    if (threadIdx.x == 0) ReleaseCount(HandedWord(blockIdx.x + 1));
  }
  __device__ __forceinline__ void TakeOver() {
    if (threadIdx.x == 0) AwaitCount(HandedWord(blockIdx.x), 1);
    NamedBarrier(kConsumersBarrier, kPrefillConsumers);
    const float4* const from = HandedSums(blockIdx.x);
#pragma unroll
    for (int i = 0; i < kSums; i += 4) {
      const float4 sums = __ldcg(from + i / 4 * kPrefillConsumers);
      sums_[i] = sums.x, sums_[i + 1] = sums.y;
      sums_[i + 2] = sums.z, sums_[i + 3] = sums.w;
    }
  }

  __device__ __forceinline__ float* KeptAt(int place) const {
    return reinterpret_cast<float*>(shared_ + args_.smem.kept_offset +
                                    place * W4A8KeptBytes(kTileM)) +
           threadIdx.x;
  }
  __device__ __forceinline__ void Keep(int place) const {
    float* const to = KeptAt(place);
#pragma unroll
    for (int i = 0; i < kSums; ++i) to[i * kPrefillConsumers] = sums_[i];
  }
  __device__ __forceinline__ void AddKept(int place) {
    const float* const from = KeptAt(place);
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      sums_[i] = from[i * kPrefillConsumers] + sums_[i];
    }
  }

  __device__ __forceinline__ void LoadStage() {
    stage_.Wait();
    const char* const slot = shared_ + args_.prefill.smem.stages_offset +
                             stage_.slot() * kW4A8PrefillStageBytes;
    const char* const codes = slot + warp_ * kCodeBytes + lane_ * 16;
    const uint4 first = *reinterpret_cast<const uint4*>(codes);
    const uint4 second = *reinterpret_cast<const uint4*>(codes + 512);
    const uint4 scales = *reinterpret_cast<const uint4*>(
        slot + kPrefillNTiles * kCodeBytes + warp_ * kTileScaleBytes +
        (lane_ >> 2) * 16);
    words_[0] = first.x, words_[1] = first.y;
    words_[2] = first.z, words_[3] = first.w;
    words_[4] = second.x, words_[5] = second.y;
    words_[6] = second.z, words_[7] = second.w;
    stage_scales_[0] = scales.x, stage_scales_[1] = scales.y;
    stage_scales_[2] = scales.z, stage_scales_[3] = scales.w;
  }

  // `block` is known at compile time where this is inlined.
  __device__ __forceinline__ void DecodeBlock(int block) {
    uint32_t(&a)[2][4] = operands_[block & 1];
    PinOperands(a);  // read by the tensor cores until here
    DecodeWord(words_[block * 2], a[0]);
    DecodeWord(words_[block * 2 + 1], a[1]);
    d4_[block & 1] =
        __half22float2(reinterpret_cast<const __half2&>(stage_scales_[block]));
  }

  static __device__ __forceinline__ void PinOperands(uint32_t (&a)[2][4]) {
    PinRegisters(a[0]);
    PinRegisters(a[1]);
  }

  // The bias of the lane's two rows in that row block.
  __device__ __forceinline__ float2 BiasOf(int n_block) const {
    const GemmArguments& gemm = args_.prefill.gemm;
    float2 bias = {0, 0};
    if (gemm.bias == nullptr) return bias;
    const int64_t n = static_cast<int64_t>(n_block) * kPrefillTileN +
                      warp_ * 16 + (lane_ >> 2);
    if (n < gemm.n) bias.x = gemm.bias[n];
    if (n + 8 < gemm.n) bias.y = gemm.bias[n + 8];
    return bias;
  }

  const W4A8PrefillArguments& args_;
  char* const shared_;
  const int warp_;
  const int lane_;
  const int column_scales_;        // offset of the lane's in slot 0
  const SharedDescriptor panels_;  // of slot 0
  const SmemTransposeEpilogue<kTernaryCodes, kTileM> store_;
  RingReader panel_;
  RingReader stage_;
  uint32_t words_[8];         // of the stage
  uint32_t stage_scales_[4];  // pairs, in fp16
  float2 d4_[2] = {};         // of the blocks in operands_
  uint32_t operands_[2][2][4] = {};
  float products_[2][kUnitSums] = {};
  float sums_[kSums];
};

#endif  // QGEMM_HAS_WGMMA

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_W4A8_PREFILL_MAINLOOP_CUH_
