// SPDX-License-Identifier: Apache-2.0
//
// Decode GEMMs of the same activations in one launch, each a range of blocks.
// Blocks may compute a norm that makes the activations, a row each, while their
// weights come; epilogues apply columnwise ops to the sums, and a warp that
// else would be idle rehearses them. Bits are those of the ops launched one by
// one.
//
// Blocks wait for blocks before them by counters in global memory: those
// start first and wait for none behind them, so that all come to an end.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_DECODE_GEMM_GROUP_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_DECODE_GEMM_GROUP_CUH_

#include <cstdint>

#include "kernels/cuda/device/decode_gemm/group_arguments.cuh"
#include "kernels/cuda/device/decode_gemm/kernel.cuh"

namespace qgemm::cuda {

// The chunks of a row that is one run, the first two of a thread in registers.
// As HeldRow.
class HeldRegisters {
 public:
  __device__ __forceinline__ void Hold(const DeviceRow& row) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int first = static_cast<int>(threadIdx.x) * kChunk + i * kStride;
      chunks_[i] = LoadChunk(row, first, min(kChunk, row.width - first));
    }
  }
  __device__ __forceinline__ void Drop() {}
  __device__ __forceinline__ void Name(const DeviceRow& /*row*/) {}
  __device__ __forceinline__ void Keep(int /*first*/, const Chunk& /*chunk*/) {}
  __device__ __forceinline__ Chunk Read(const DeviceRow& row, int first,
                                        int count) const {
    if (first < kStride) return chunks_[0];
    if (first < 2 * kStride) return chunks_[1];
    return LoadChunk(row, first, count);
  }

 private:
  // Columns of a chunk of each thread.
  static constexpr int kStride = kGroupNormThreads * kChunk;

  Chunk chunks_[2];
};

// Four columns of a row, rounded to a type.
__device__ __forceinline__ void RoundFour(FloatType type, float (&x)[4]) {
  if (type == FloatType::kFloat32) return;
#pragma unroll
  for (float& value : x) value = FromHalfBits(type, ToHalfBits(type, value));
}

__device__ __forceinline__ void StoreRoundedFour(FloatType type, void* place,
                                                 const float (&x)[4]) {
  const float4 values = {x[0], x[1], x[2], x[3]};
  if (type == FloatType::kFloat32) {
    StoreFour(static_cast<float*>(place), values, true, 4);
  } else if (type == FloatType::kFloat16) {
    StoreFour(static_cast<__half*>(place), values, true, 4);
  } else {
    StoreFour(static_cast<__nv_bfloat16*>(place), values, true, 4);
  }
}

// Past the L1, since another SM may have written it during this launch.
__device__ __forceinline__ void LoadFour(const EpilogueMatrix& matrix, int m,
                                         int64_t n, float (&x)[4]) {
  if (matrix.elements == nullptr) return;
  const uint8_t* const row = matrix.elements + m * matrix.row_bytes;
  if (matrix.width == 1) {
    const float number =
        LoadElement({const_cast<uint8_t*>(row), matrix.type, 1}, 0);
#pragma unroll
    for (float& value : x) value = number;
    return;
  }
  const uint8_t* const at = row + n * BytesOf(matrix.type);
  if (matrix.type == FloatType::kFloat32) {
    const float4 four = __ldcg(reinterpret_cast<const float4*>(at));
    x[0] = four.x;
    x[1] = four.y;
    x[2] = four.z;
    x[3] = four.w;
    return;
  }
  const uint2 four = __ldcg(reinterpret_cast<const uint2*>(at));
  x[0] = FromHalfBits(matrix.type, four.x & 0xffff);
  x[1] = FromHalfBits(matrix.type, four.x >> 16);
  x[2] = FromHalfBits(matrix.type, four.y & 0xffff);
  x[3] = FromHalfBits(matrix.type, four.y >> 16);
}

// Elements that stand for a row's, of any type, where work is rehearsed. Code
// and constants have to be fetched past weights that fill the L2 cache
// (bench/NOTES.md).
static __device__ uint4 rehearsed_row[kMaxRehearsedWidth / 4];

// The epilogue of a GEMM of a group.
struct StoreThroughOps {
  const GroupedGemm& own;
  bool rehearses;

  __device__ __forceinline__ void operator()(const GemmArguments& args, int m,
                                             int64_t n,
                                             const float4& values) const {
    float x[4] = {values.x, values.y, values.z, values.w};
    const float no_pair[4] = {};
    Apply(args, m, n, no_pair, x);
  }

  // Leaves in x what the epilogue ends with.
  __device__ __forceinline__ void Apply(const GemmArguments& args, int m,
                                        int64_t n, const float (&pair)[4],
                                        float (&x)[4]) const {
    RoundFour(own.c_type, x);
    if (args.c != nullptr) {
      StoreResults::StoreAt(PlaceOr(StoreResults::PlaceOf(args, m, n)), args, n,
                            {x[0], x[1], x[2], x[3]});
    }
#pragma unroll 1
    for (int i = 0; i < own.op_count; ++i) {
      const EpilogueOp& op = own.ops[i];
      float other[4] = {pair[0], pair[1], pair[2], pair[3]};
      if (!op.takes_pair) LoadFour(op.other, m, n, other);
      ComputeElements(op.op, other, x);
      RoundFour(op.type, x);
      const EpilogueMatrix& to = op.result;
      if (to.elements == nullptr) continue;
      StoreRoundedFour(
          to.type,
          PlaceOr(to.elements + m * to.row_bytes + n * BytesOf(to.type)), x);
    }
  }

 private:
  __device__ __forceinline__ void* PlaceOr(void* place) const {
    return rehearses ? rehearsed_row : place;
  }
};

// True of the warps that bring stages for the one that brings none; `thread` is
// counted from their first.
__device__ __forceinline__ bool RehearsesEpilogue(int thread) {
  return thread / 32 == kGroupWarps - 1;
}

// Activations are there once the kernel before is done and, if there is a norm,
// its rows are; or once all rows have been counted.
struct WaitForActivations {
  const unsigned* counted;  // null: the end of the kernel before tells
  unsigned rows;
  bool is_norm;

  __device__ __forceinline__ void operator()() const {
    if (is_norm || counted == nullptr) GridDependencyWait();
    if (counted == nullptr) return;
    AwaitCount(counted, rows);
    AsyncProxyFence();
  }
};

// Blocks that find an SM before the kernel before has ended.
inline constexpr int kRehearsingBlocks = 4;
// Steps of the warps that multiply besides the multiplication.
struct GroupSteps {
  const GroupNorm& norm;
  const GroupedGemm& own;
  char* norm_scratch;

  // Computes those rows of the norm that fall to this block. Blocks that start
  // early rehearse it with a row of other memory while they wait.
  __device__ __forceinline__ void BeforeMainloop() const {
    const int first = static_cast<int>(blockIdx.x);
    if (first >= norm.rows || first >= norm.blocks) return;
    int row = norm.rehearses && first < kRehearsingBlocks ? first - norm.blocks
                                                          : first;
    if (row >= 0) GridDependencyWait();
#pragma unroll 1
    for (; row < norm.rows; row += norm.blocks) {
      NormArgs args = norm.first_row;
      if (row < 0) {
        args.x.elements = reinterpret_cast<uint8_t*>(rehearsed_row);
        args.result.elements = args.x.elements;
      } else {
        args.x.elements += row * norm.x_row_bytes;
        args.result.elements += row * norm.result_row_bytes;
      }
      HeldRegisters held;
      ComputeNorm<kGroupNormThreads>(
          args,
          *reinterpret_cast<NormScratch<kGroupNormThreads>*>(norm_scratch),
          held);
      AsyncProxyFence();
      NamedBarrier(kConsumersBarrier, kGroupNormThreads);
      if (row < 0) {
        GridDependencyWait();
      } else if (threadIdx.x == 0) {
        ReleaseCount(norm.done);
      }
    }
  }

  __device__ __forceinline__ void BeforeEpilogue() const {
    GridDependencyWait();
    if (own.awaited != nullptr && threadIdx.x == 0) {
      AwaitCount(own.awaited, own.awaited_count);
    }
  }

  // Says that this block's results are there, if any other waits for them.
  __device__ __forceinline__ void AfterEpilogue(int threads) const {
    if (own.done == nullptr) return;
    NamedBarrier(kConsumersBarrier, threads);
    if (threadIdx.x == 0) ReleaseCount(own.done);
  }
};

// The place in the group of this block's GEMM.
__device__ __forceinline__ int PlaceOf(const GroupArguments& group) {
  int place = 0;
  while (place + 1 < group.count &&
         static_cast<int>(blockIdx.x) >= group.gemms[place + 1].first_block) {
    ++place;
  }
  return place;
}

__device__ __forceinline__ WaitForActivations
WaitFor(const GroupArguments& group) {
  if (group.norm.rows > 0) {
    return {group.norm.done, static_cast<unsigned>(group.norm.rows), true};
  }
  return {group.arrivals.counted, group.arrivals.rows, false};
}

template <int kCodes, ScaleKind kScale, bool kZeros, typename T, int kMTiles>
__global__ void __launch_bounds__(kMaxThreads, 1)
    DecodeGroup(const __grid_constant__ GroupArguments group) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(1024) char shared[];
  constexpr bool kUneven = kMTiles >= 4;
  const GroupedGemm& own = group.gemms[PlaceOf(group)];
  const GemmArguments& args = own.gemm;
  BlockWork work = WorkOf(args, blockIdx.x - own.first_block);
  work.first_rank = static_cast<int>(blockIdx.x) % group.cluster - work.rank;
  const DecodeSmemLayout smem = SmemLayoutOf(args, kCodes, kMTiles * 8);
  const Ring ring{SharedAddress(shared) + smem.barriers, args.slots};
  const int consumers = BlockShape(args).consumers;
  const int thread = static_cast<int>(threadIdx.x);
  LaunchDependents();
  // Blocks that fill a cluster up, and threads that other GEMMs need.
  if (work.n_block * args.n_tiles * 16 >= args.n ||
      thread >= consumers + kGroupWarps * 32) {
    return;
  }
  const GroupSteps steps{group.norm, own, shared + smem.total};
  const bool multiplies = thread < consumers;
  if (multiplies) {
    if constexpr (kUneven) GrowRegisters<112>();
    Multiply<kCodes, kScale, kZeros, T, kMTiles>(args, smem, work, ring, shared,
                                                 steps);
  } else {
    if constexpr (kUneven) ShrinkRegisters<24>();
    Produce<kMTiles>(args, smem, work, ring, shared, WaitFor(group),
                     OneSource(args, work));
    if (kUneven || !RehearsesEpilogue(thread - consumers)) return;
  }
  DecodeEpilogue<kMTiles * 8, StoreThroughOps>(
      args, work, smem, shared, {consumers, !multiplies}, {own, !multiplies})
      .Run();
  if (multiplies) steps.AfterEpilogue(consumers);
#endif
}

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_DECODE_GEMM_GROUP_CUH_
