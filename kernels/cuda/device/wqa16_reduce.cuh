// SPDX-License-Identifier: Apache-2.0
//
// From the sums of warps and blocks to C. The rows of a row block fall to the
// blocks of the cluster in equal parts; a block adds up the sums of its warps,
// sends each to the block that its row falls to, and adds up what it receives.
// The order is always that of the columns.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_WQA16_REDUCE_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_WQA16_REDUCE_CUH_

#include <cstdint>

#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/device/wqa16_arguments.cuh"

namespace qgemm::cuda {

__device__ __forceinline__ void StoreResult(const GemmArguments& args,
                                            int64_t index, float value) {
  if (args.result == ResultType::kFloat16) {
    static_cast<__half*>(args.c)[index] = __float2half_rn(value);
  } else if (args.result == ResultType::kBFloat16) {
    static_cast<__nv_bfloat16*>(args.c)[index] = __float2bfloat16_rn(value);
  } else {
    static_cast<float*>(args.c)[index] = value;
  }
}

// Of the threads of a block that multiplied; all of them call it together.
template <int kTokens>
class Reducer {
 public:
  __device__ __forceinline__ Reducer(const GemmArguments& args,
                                     const BlockWork& work,
                                     const SharedPlan& plan, char* shared,
                                     int threads)
      : args_(args),
        work_(work),
        sums_(reinterpret_cast<float*>(shared)),
        received_(reinterpret_cast<float*>(shared + plan.received)),
        barrier_(SharedAddress(shared) + plan.barriers +
                 args.slots * kBarrierBytes),
        threads_(threads),
        rows_(args.row_tiles * 16 / args.splits) {}

  // Bytes that a block receives.
  static __device__ __forceinline__ uint32_t
  ReceivedBytes(const GemmArguments& args) {
    return (args.splits - 1) * args.m * (args.row_tiles * 16 / args.splits) * 4;
  }

  // The sums of all warps are in shared memory.
  __device__ __forceinline__ void Run() {
    if (args_.splits == 1) {
      ForEach(rows_,
              [&](int m, int row) { Finish(m, row, SumOfWarps(m, row)); });
      return;
    }
    Exchange();
    const int begin = work_.rank * rows_;
    ForEach(rows_, [&](int m, int row) {
      float sum = 0;
      for (int source = 0; source < args_.splits; ++source) {
        sum += source == work_.rank ? sums_[m * stride() + begin + row]
                                    : received_[Place(source, m, row)];
      }
      Finish(m, begin + row, sum);
    });
  }

 private:
  __device__ __forceinline__ int stride() const {
    return SumStride(args_.row_tiles);
  }

  // Calls visit(token, row) for the tokens that exist and `rows` rows.
  template <typename Visit>
  __device__ __forceinline__ void ForEach(int rows, const Visit& visit) const {
    for (int i = threadIdx.x; i < args_.m * rows; i += threads_) {
      visit(i / rows, i % rows);
    }
  }

  __device__ __forceinline__ float SumOfWarps(int m, int row) const {
    const int place = m * stride() + row;
    float parts[kMaxGroups];
#pragma unroll
    for (int w = 0; w < kMaxGroups; ++w) {
      parts[w] =
          w < args_.column_warps ? sums_[w * kTokens * stride() + place] : 0;
    }
    return (parts[0] + parts[1]) + (parts[2] + parts[3]);
  }

  // Where a block keeps what it receives: of `source`, a token, a row of its
  // own part.
  __device__ __forceinline__ int Place(int source, int m, int row,
                                       int rank) const {
    return ((source < rank ? source : source - 1) * args_.m + m) * rows_ + row;
  }
  __device__ __forceinline__ int Place(int source, int m, int row) const {
    return Place(source, m, row, work_.rank);
  }

  __device__ __forceinline__ void Exchange() {
    ClusterWait();  // all blocks have come to life and set up their barriers
    const uint32_t received = SharedAddress(received_);
    ForEach(args_.row_tiles * 16, [&](int m, int row) {
      const float sum = SumOfWarps(m, row);
      const int rank = row / rows_;
      if (rank == work_.rank) {
        sums_[m * stride() + row] = sum;
      } else {
        const int place = Place(work_.rank, m, row % rows_, rank);
        SendFloat(ClusterAddress(received + place * 4, rank), sum,
                  ClusterAddress(barrier_, rank));
      }
    });
    NamedBarrier(1, threads_);
    BarrierWait(barrier_, 0);
  }

  __device__ __forceinline__ void Finish(int m, int row, float sum) const {
    const int64_t n = work_.row_block * args_.row_tiles * 16 + row;
    if (n >= args_.n) return;
    sum *= args_.factor;
    if (args_.row_scales != nullptr) sum *= args_.row_scales[n];
    if (args_.bias != nullptr) sum += args_.bias[n];
    StoreResult(args_, m * args_.n + n, sum);
  }

  const GemmArguments& args_;
  const BlockWork& work_;
  float* const sums_;  // [column_warps][kTokens][stride]
  float* const received_;
  const uint32_t barrier_;
  const int threads_;
  const int rows_;  // that fall to a block
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_WQA16_REDUCE_CUH_
