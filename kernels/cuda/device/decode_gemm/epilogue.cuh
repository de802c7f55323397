// SPDX-License-Identifier: Apache-2.0
//
// From the sums of warps and blocks to results, four columns of one row each,
// which go to a `Store`. The rows of a row block fall to the
// blocks of the cluster in equal parts; a block adds up the sums of its warps,
// sends each to the block that its row falls to, and adds up what it receives.
// The order is always that of the columns.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_DECODE_GEMM_EPILOGUE_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_DECODE_GEMM_EPILOGUE_CUH_

#include <cstdint>

#include "kernels/cuda/device/gemm_arguments.cuh"
#include "kernels/cuda/device/ptx.cuh"

namespace qgemm::cuda {

template <typename Out>
__device__ __forceinline__ Out RoundTo(float value);
template <>
__device__ __forceinline__ __half RoundTo(float value) {
  return __float2half_rn(value);
}
template <>
__device__ __forceinline__ __nv_bfloat16 RoundTo(float value) {
  return __float2bfloat16_rn(value);
}
template <>
__device__ __forceinline__ float RoundTo(float value) {
  return value;
}

// Stores the first `count` of four results at c; at once if they are
// `aligned`.
template <typename Out>
__device__ __forceinline__ void StoreFour(Out* c, const float4& values,
                                          bool aligned, int64_t count) {
  struct alignas(4 * sizeof(Out)) Four {
    Out values[4];
  };
  const Four four = {{RoundTo<Out>(values.x), RoundTo<Out>(values.y),
                      RoundTo<Out>(values.z), RoundTo<Out>(values.w)}};
  if (aligned && count >= 4) {
    *reinterpret_cast<Four*>(c) = four;
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (i < count) c[i] = four.values[i];
  }
}

// Stores results to C.
struct StoreResults {
  // Columns [n, n + 4) of row m, as far as there are.
  __device__ __forceinline__ void operator()(const GemmArguments& args, int m,
                                             int64_t n,
                                             const float4& values) const {
    StoreAt(PlaceOf(args, m, n), args, n, values);
  }

  static __device__ __forceinline__ void* PlaceOf(const GemmArguments& args,
                                                  int m, int64_t n) {
    const int bytes = args.result == ResultType::kFloat32 ? 4 : 2;
    return static_cast<uint8_t*>(args.c) + (int64_t{m} * args.n + n) * bytes;
  }

  static __device__ __forceinline__ void StoreAt(void* place,
                                                 const GemmArguments& args,
                                                 int64_t n,
                                                 const float4& values) {
    const int64_t left = args.n - n;
    if (args.result == ResultType::kFloat16) {
      StoreFour(static_cast<__half*>(place), values, args.vectorized_store,
                left);
    } else if (args.result == ResultType::kBFloat16) {
      StoreFour(static_cast<__nv_bfloat16*>(place), values,
                args.vectorized_store, left);
    } else {
      StoreFour(static_cast<float*>(place), values, args.vectorized_store,
                left);
    }
  }
};

__device__ __forceinline__ float4 operator+(const float4& a, const float4& b) {
  return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w};
}

// The sums of warps that alternate along K, each `stride` floats from the next.
__device__ __forceinline__ float4 SumOfWarps(const float* sums, int k_warps,
                                             int stride) {
  float4 parts[kMaxGroups];
#pragma unroll
  for (int w = 0; w < kMaxGroups; ++w) {
    parts[w] = w < k_warps ? *reinterpret_cast<const float4*>(sums + w * stride)
                           : float4{0, 0, 0, 0};
  }
  return (parts[0] + parts[1]) + (parts[2] + parts[3]);
}

// From sums to results, of columns [n, n + 4) as far as there are.
__device__ __forceinline__ void ScaleSums(const GemmArguments& args, int64_t n,
                                          float4& sums) {
  float* const values[4] = {&sums.x, &sums.y, &sums.z, &sums.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float& value = *values[i];
    value *= args.factor;
    if (n + i >= args.n) continue;
    if (args.row_scales != nullptr) value *= args.row_scales[n + i];
    if (args.bias != nullptr) value += args.bias[n + i];
  }
}

// Rows of a row block that fall to a block of `part`. The last ranks have fewer
// than others, or none.
__device__ __forceinline__ int RowsOf(const GemmArguments& args, int part,
                                      int rank) {
  const int left = args.n_tiles * 16 - rank * part;
  return left <= 0 ? 0 : left < part ? left : part;
}

// Bytes that a block receives.
__device__ __forceinline__ uint32_t ReceivedBytesOf(const GemmArguments& args,
                                                    const BlockWork& work) {
  const int part = RowsOfRank(args.n_tiles, args.split_k);
  return (args.split_k - 1) * work.rows * RowsOf(args, part, work.rank) * 4;
}

// Threads that go through an epilogue: those of a block that multiplied,
// together; or a warp that rehearses, whose work is lost, but whose code is
// then near when it is needed.
struct EpilogueThreads {
  int count;
  bool rehearses;

  // Calls visit(i) for items of `items` that fall to this thread; of a warp
  // that rehearses, for one.
  template <typename Visit>
  __device__ __forceinline__ void ForEach(unsigned items,
                                          const Visit& visit) const {
    const unsigned first = rehearses ? threadIdx.x % 32 : threadIdx.x;
    const unsigned end = rehearses ? min(items, 32u) : items;
    for (unsigned i = first; i < end; i += count) visit(i);
  }
};

// Rows go by fours, one thread each.
template <int kTileM, typename Store>
class DecodeEpilogue {
 public:
  __device__ __forceinline__ DecodeEpilogue(const GemmArguments& args,
                                            const BlockWork& work,
                                            const DecodeSmemLayout& smem,
                                            char* shared,
                                            const EpilogueThreads& threads,
                                            const Store& store)
      : args_(args),
        work_(work),
        store_(store),
        sums_(reinterpret_cast<float*>(shared)),
        received_(reinterpret_cast<float*>(shared + smem.received)),
        barrier_(SharedAddress(shared) + smem.barriers +
                 args.slots * kBarrierBytes),
        threads_(threads),
        part_(RowsOfRank(args.n_tiles, args.split_k)) {}

  // The sums of all warps are in shared memory, but of a rehearsal.
  __device__ __forceinline__ void Run() {
    if (args_.split_k > 1 && !threads_.rehearses) Exchange();
    const int begin = work_.rank * part_;
    ForEach(RowsOf(args_, part_, work_.rank),
            [&](int m, int row) { Finish(m, begin + row, SumOf(m, row)); });
  }

 private:
  __device__ __forceinline__ int stride() const {
    return SumStride(args_.n_tiles);
  }

  // Calls visit(row of A, row) for the rows of A that exist and every fourth of
  // `rows` rows.
  template <typename Visit>
  __device__ __forceinline__ void ForEach(int rows, const Visit& visit) const {
    const unsigned fours = rows / 4;
    threads_.ForEach(work_.rows * fours, [&](unsigned i) {
      visit(static_cast<int>(i / fours), static_cast<int>(i % fours) * 4);
    });
  }

  __device__ __forceinline__ float4 SumOfWarps(int m, int row) const {
    return qgemm::cuda::SumOfWarps(sums_ + m * stride() + row, args_.k_warps,
                                   kTileM * stride());
  }

  // The sum of a row that falls to this block, counted from its first.
  __device__ __forceinline__ float4 SumOf(int m, int row) const {
    if (threads_.rehearses) return {0, 0, 0, 0};
    if (args_.split_k == 1) return SumOfWarps(m, row);
    const float* const own = sums_ + m * stride() + work_.rank * part_ + row;
    float4 sum = {0, 0, 0, 0};
    for (int source = 0; source < args_.split_k; ++source) {
      const float* from = source == work_.rank
                              ? own
                              : received_ + Place(source, work_.rank, m, row);
      sum = sum + *reinterpret_cast<const float4*>(from);
    }
    return sum;
  }

  // The place in the block of `rank` for the sums that `source` sends.
  __device__ __forceinline__ int Place(int source, int rank, int m,
                                       int row) const {
    return ((source < rank ? source : source - 1) * work_.rows + m) * part_ +
           row;
  }

  __device__ __forceinline__ void Exchange() {
    ClusterWait();  // all blocks have come to life and set up their barriers
    if constexpr (!ReceivesApart(kTileM)) {
      ClusterArrive();  // this one is done with its ring
      ClusterWait();
    }
    const uint32_t received = SharedAddress(received_);
    ForEach(args_.n_tiles * 16, [&](int m, int row) {
      const float4 sum = SumOfWarps(m, row);
      const int rank = row / part_;
      if (rank == work_.rank) {
        *reinterpret_cast<float4*>(sums_ + m * stride() + row) = sum;
      } else {
        const int place = Place(work_.rank, rank, m, row % part_);
        const int block = work_.first_rank + rank;
        SendFloats(ClusterAddress(received + place * 4, block), sum,
                   ClusterAddress(barrier_, block));
      }
    });
    NamedBarrier(kConsumersBarrier, threads_.count);
    BarrierWait(barrier_, 0);
  }

  __device__ __forceinline__ void Finish(int m, int row, float4 sum) const {
    const int64_t n = work_.n_block * args_.n_tiles * 16 + row;
    if (n >= args_.n) return;
    ScaleSums(args_, n, sum);
    store_(args_, work_.first_m + m, n, sum);
  }

  const GemmArguments& args_;
  const BlockWork& work_;
  const Store& store_;
  float* const sums_;  // [k_warps][kTileM][stride]
  float* const received_;
  const uint32_t barrier_;
  const EpilogueThreads threads_;
  const int part_;  // rows that fall to a block
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_DECODE_GEMM_EPILOGUE_CUH_
