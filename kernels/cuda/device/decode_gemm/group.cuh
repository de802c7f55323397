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

// Columns of a row, rounded to a type.
template <int kCount>
__device__ __forceinline__ void RoundColumns(FloatType type,
                                             Columns<kCount>& columns) {
  if (type == FloatType::kFloat32) return;
#pragma unroll
  for (float& x : columns.x) x = FromHalfBits(type, ToHalfBits(type, x));
}

template <int kCount>
__device__ __forceinline__ void StoreRounded(FloatType type, void* place,
                                             const Columns<kCount>& columns) {
  if (type == FloatType::kFloat32) {
    StoreColumns(static_cast<float*>(place), columns, true, kCount);
  } else if (type == FloatType::kFloat16) {
    StoreColumns(static_cast<__half*>(place), columns, true, kCount);
  } else {
    StoreColumns(static_cast<__nv_bfloat16*>(place), columns, true, kCount);
  }
}

// Past the L1, since another SM may have written them during this launch.
__device__ __forceinline__ void LoadColumns(const uint8_t* at, FloatType type,
                                            Columns<1>& columns) {
  columns.x[0] =
      type == FloatType::kFloat32
          ? __ldcg(reinterpret_cast<const float*>(at))
          : FromHalfBits(type, __ldcg(reinterpret_cast<const uint16_t*>(at)));
}
__device__ __forceinline__ void LoadColumns(const uint8_t* at, FloatType type,
                                            Columns<4>& columns) {
  if (type == FloatType::kFloat32) {
    const float4 four = __ldcg(reinterpret_cast<const float4*>(at));
    columns = {{four.x, four.y, four.z, four.w}};
    return;
  }
  const uint2 four = __ldcg(reinterpret_cast<const uint2*>(at));
  columns = {
      {FromHalfBits(type, four.x & 0xffff), FromHalfBits(type, four.x >> 16),
       FromHalfBits(type, four.y & 0xffff), FromHalfBits(type, four.y >> 16)}};
}

template <int kCount>
__device__ __forceinline__ void LoadColumns(const EpilogueMatrix& matrix, int m,
                                            int64_t n,
                                            Columns<kCount>& columns) {
  if (matrix.elements == nullptr) return;
  const uint8_t* const row = matrix.elements + m * matrix.row_bytes;
  if (matrix.width > 1) {
    LoadColumns(row + n * BytesOf(matrix.type), matrix.type, columns);
    return;
  }
  const float number =
      LoadElement({const_cast<uint8_t*>(row), matrix.type, 1}, 0);
#pragma unroll
  for (float& x : columns.x) x = number;
}

// Elements that stand for a row's, of any type, where work is rehearsed. Code
// and constants have to be fetched past weights that fill the L2 cache
// (bench/NOTES.md).
static __device__ uint4 rehearsed_row[kMaxRehearsedWidth / 4];

// The epilogue of a GEMM of a group.
struct StoreThroughOps {
  const EpilogueOps& ops;
  bool rehearses;

  template <int kCount>
  __device__ __forceinline__ void operator()(
      const ResultArguments& args, int m, int64_t n,
      const Columns<kCount>& columns) const {
    Columns<kCount> x = columns;
    Apply(args, m, n, {}, x);
  }

  // Leaves in x what the epilogue ends with.
  template <int kCount>
  __device__ __forceinline__ void Apply(const ResultArguments& args, int m,
                                        int64_t n, const Columns<kCount>& pair,
                                        Columns<kCount>& x) const {
    RoundColumns(ops.c_type, x);
    if (args.c != nullptr) {
      StoreResults::StoreAt(PlaceOr(StoreResults::PlaceOf(args, m, n)), args, n,
                            x);
    }
#pragma unroll 1
    for (int i = 0; i < ops.count; ++i) {
      const EpilogueOp& op = ops.ops[i];
      Columns<kCount> other = pair;
      if (!op.takes_pair) LoadColumns(op.other, m, n, other);
      ComputeElements(op.op, other.x, x.x);
      RoundColumns(op.type, x);
      const EpilogueMatrix& to = op.result;
      if (to.elements == nullptr) continue;
      StoreRounded(
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
__device__ __forceinline__ bool IsFree(int thread) {
  return thread / 32 == kGroupWarps - 1;
}

// Called by a warp.
template <typename Parameters>
__device__ __forceinline__ void Hold(const Parameters& from, Parameters& held) {
  const auto* const words = reinterpret_cast<const uint32_t*>(&from);
  for (unsigned i = threadIdx.x % 32; i < sizeof(from) / 4; i += 32) {
    reinterpret_cast<uint32_t*>(&held)[i] = words[i];
  }
}
__device__ __forceinline__ void Hold(const GroupedGemm& gemm, HeldEnd& held) {
  Hold<ResultArguments>(gemm.gemm, held.result);
  Hold<EpilogueOps>(gemm.ops, held.ops);
}
// Called by that warp when it has, and by the `consumers` threads that multiply
// before they read what is held.
__device__ __forceinline__ void TellHeld(int consumers) {
  __syncwarp();
  NamedBarrierArrive(kHeldBarrier, consumers + 32);
}
__device__ __forceinline__ void AwaitHeld(int consumers) {
  NamedBarrier(kHeldBarrier, consumers + 32);
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
  GroupScratch& scratch;
  int consumers;  // threads that multiply

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
      ComputeNorm<kGroupNormThreads>(args, scratch.norm, held);
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
    AwaitHeld(consumers);
  }

  // Says that this block's results are there, if any other waits for them.
  __device__ __forceinline__ void AfterEpilogue() const {
    if (own.done == nullptr) return;
    NamedBarrier(kConsumersBarrier, consumers);
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
  auto& scratch = *reinterpret_cast<GroupScratch*>(shared + smem.total);
  const GroupSteps steps{group.norm, own, scratch, consumers};
  const bool multiplies = thread < consumers;
  if (multiplies) {
    if constexpr (kUneven) GrowRegisters<112>();
    Multiply<kCodes, kScale, kZeros, T, kMTiles>(args, smem, work, ring, shared,
                                                 steps);
  } else {
    if constexpr (kUneven) ShrinkRegisters<24>();
    Produce<kMTiles>(args, smem, work, ring, shared, WaitFor(group),
                     OneSource(args, work));
    if (!IsFree(thread - consumers)) return;
    Hold(own, scratch.ends[0]);
    TellHeld(consumers);
    if (kUneven) return;
  }
  const HeldEnd& end = scratch.ends[0];
  DecodeEpilogue<kMTiles * 8, StoreThroughOps>(
      args, end.result, work, smem, shared, ring.Received(),
      {consumers, !multiplies}, {end.ops, !multiplies})
      .Run();
  if (multiplies) steps.AfterEpilogue();
#endif
}

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_DECODE_GEMM_GROUP_CUH_
