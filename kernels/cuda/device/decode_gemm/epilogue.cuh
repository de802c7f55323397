// SPDX-License-Identifier: Apache-2.0
//
// From the sums of warps and blocks to results, a few columns of one row each,
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

// Consecutive columns of one row that a thread finishes.
template <int kCount>
struct Columns {
  float x[kCount];
};

// Columns of a thread. Few rows have work for one a thread, whose instructions,
// each of them fetched for this once, are fewer.
template <int kTileM>
inline constexpr int kFinishedColumns = kTileM == 8 ? 1 : 4;

template <int kCount>
__device__ __forceinline__ Columns<kCount> operator+(const Columns<kCount>& a,
                                                     const Columns<kCount>& b) {
  Columns<kCount> sum;
#pragma unroll
  for (int i = 0; i < kCount; ++i) sum.x[i] = a.x[i] + b.x[i];
  return sum;
}

// From shared memory, four of them at a multiple of 16 bytes.
template <int kCount>
__device__ __forceinline__ Columns<kCount> ReadColumns(const float* from) {
  struct alignas(kCount * sizeof(float)) Aligned {
    float x[kCount];
  };
  const Aligned read = *reinterpret_cast<const Aligned*>(from);
  Columns<kCount> columns;
#pragma unroll
  for (int i = 0; i < kCount; ++i) columns.x[i] = read.x[i];
  return columns;
}

// Stores the first `count` of the columns at c; at once if they are `aligned`.
template <typename Out, int kCount>
__device__ __forceinline__ void StoreColumns(Out* c,
                                             const Columns<kCount>& columns,
                                             bool aligned, int64_t count) {
  struct alignas(kCount * sizeof(Out)) Rounded {
    Out x[kCount];
  };
  Rounded rounded;
#pragma unroll
  for (int i = 0; i < kCount; ++i) rounded.x[i] = RoundTo<Out>(columns.x[i]);
  if (aligned && count >= kCount) {
    *reinterpret_cast<Rounded*>(c) = rounded;
    return;
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (i < count) c[i] = rounded.x[i];
  }
}

// Stores results to C.
struct StoreResults {
  // Columns from n on of row m, as far as there are.
  template <int kCount>
  __device__ __forceinline__ void operator()(
      const ResultArguments& args, int m, int64_t n,
      const Columns<kCount>& columns) const {
    StoreAt(PlaceOf(args, m, n), args, n, columns);
  }

  static __device__ __forceinline__ void* PlaceOf(const ResultArguments& args,
                                                  int m, int64_t n) {
    const int bytes = args.result == ResultType::kFloat32 ? 4 : 2;
    return static_cast<uint8_t*>(args.c) + (int64_t{m} * args.n + n) * bytes;
  }

  template <int kCount>
  static __device__ __forceinline__ void StoreAt(
      void* place, const ResultArguments& args, int64_t n,
      const Columns<kCount>& columns) {
    const int64_t left = args.n - n;
    if (args.result == ResultType::kFloat16) {
      StoreColumns(static_cast<__half*>(place), columns, args.vectorized_store,
                   left);
    } else if (args.result == ResultType::kBFloat16) {
      StoreColumns(static_cast<__nv_bfloat16*>(place), columns,
                   args.vectorized_store, left);
    } else {
      StoreColumns(static_cast<float*>(place), columns, args.vectorized_store,
                   left);
    }
  }
};

// The sums of warps that alternate along K, each `stride` floats from the next.
template <int kCount>
__device__ __forceinline__ Columns<kCount> SumOfWarps(const float* sums,
                                                      int k_warps, int stride) {
  Columns<kCount> parts[kMaxGroups];
#pragma unroll
  for (int w = 0; w < kMaxGroups; ++w) {
    parts[w] = w < k_warps ? ReadColumns<kCount>(sums + w * stride)
                           : Columns<kCount>{};
  }
  return (parts[0] + parts[1]) + (parts[2] + parts[3]);
}

// From sums to results, of columns from n on as far as there are.
template <int kCount>
__device__ __forceinline__ void ScaleSums(const ResultArguments& args,
                                          int64_t n, Columns<kCount>& sums) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    float& value = sums.x[i];
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

// `result` has the results of `args`, wherever they are held; `received` is the
// barrier of what other blocks send.
template <int kTileM, typename Store>
class DecodeEpilogue {
 public:
  __device__ __forceinline__ DecodeEpilogue(
      const GemmArguments& args, const ResultArguments& result,
      const BlockWork& work, const DecodeSmemLayout& smem, char* shared,
      uint32_t received, const EpilogueThreads& threads, const Store& store)
      : args_(args),
        result_(result),
        work_(work),
        store_(store),
        sums_(reinterpret_cast<float*>(shared)),
        received_(reinterpret_cast<float*>(shared + smem.received)),
        barrier_(received),
        threads_(threads),
        part_(RowsOfRank(args.n_tiles, args.split_k)) {}

  // The sums of all warps are in shared memory, but of a rehearsal.
  __device__ __forceinline__ void Run() {
    if (args_.split_k > 1 && !threads_.rehearses) Exchange();
    const int begin = work_.rank * part_;
    ForEach<kColumns>(RowsOf(args_, part_, work_.rank), [&](int m, int row) {
      Finish(m, begin + row, SumOf(m, row));
    });
  }

 private:
  static constexpr int kColumns = kFinishedColumns<kTileM>;

  __device__ __forceinline__ int stride() const {
    return SumStride(args_.n_tiles);
  }

  // Calls visit(row of A, row) for the rows of A that exist and every
  // kStep-th of `rows` rows.
  template <int kStep, typename Visit>
  __device__ __forceinline__ void ForEach(int rows, const Visit& visit) const {
    const unsigned steps = rows / kStep;
    threads_.ForEach(work_.rows * steps, [&](unsigned i) {
      visit(static_cast<int>(i / steps), static_cast<int>(i % steps) * kStep);
    });
  }

  template <int kCount>
  __device__ __forceinline__ Columns<kCount> SumOfWarps(int m, int row) const {
    return qgemm::cuda::SumOfWarps<kCount>(sums_ + m * stride() + row,
                                           args_.k_warps, kTileM * stride());
  }

  // The sums of rows that fall to this block, counted from its first.
  __device__ __forceinline__ Columns<kColumns> SumOf(int m, int row) const {
    if (threads_.rehearses) return {};
    if (args_.split_k == 1) return SumOfWarps<kColumns>(m, row);
    const float* const own = sums_ + m * stride() + work_.rank * part_ + row;
    Columns<kColumns> sum = {};
    for (int source = 0; source < args_.split_k; ++source) {
      const float* from = source == work_.rank
                              ? own
                              : received_ + Place(source, work_.rank, m, row);
      sum = sum + ReadColumns<kColumns>(from);
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
    ForEach<4>(args_.n_tiles * 16, [&](int m, int row) {
      const Columns<4> columns = SumOfWarps<4>(m, row);
      const float4 sum = {columns.x[0], columns.x[1], columns.x[2],
                          columns.x[3]};
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

  __device__ __forceinline__ void Finish(int m, int row,
                                         Columns<kColumns> sum) const {
    const int64_t n = work_.n_block * args_.n_tiles * 16 + row;
    if (n >= result_.n) return;
    ScaleSums(result_, n, sum);
    store_(result_, work_.first_m + m, n, sum);
  }

  const GemmArguments& args_;
  const ResultArguments& result_;
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
