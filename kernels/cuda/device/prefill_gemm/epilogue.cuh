// SPDX-License-Identifier: Apache-2.0
//
// From a group's sums, 64 rows of W by a tile's rows of A in registers, to C,
// where a row's rows follow each other: transposed through shared
// memory.
//
// Staged rows have 128 bytes: a row's 64 results of 16 bits, or half of its
// results in fp32. The pieces of 16 bytes of row of A t stand at piece ^ (t %
// 8), so that neither side meets bank conflicts.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_PREFILL_GEMM_EPILOGUE_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_PREFILL_GEMM_EPILOGUE_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <numeric>

#include "kernels/cuda/device/decode.cuh"
#include "kernels/cuda/device/prefill_gemm/arguments.cuh"
#include "kernels/cuda/device/ptx.cuh"

namespace qgemm::cuda {

// Factor and bias of a lane's two rows.
struct RowFinish {
  float2 factor;
  float2 bias;
};

template <int kCodes, int kTileM>
class SmemTransposeEpilogue {
 public:
  static constexpr int kSums = kTileM / 2;  // of a lane

  // `group` is the caller's group of four warps, `thread` counts within it.
  __device__ __forceinline__ SmemTransposeEpilogue(const PrefillArguments& args,
                                                   char* shared, int group,
                                                   int thread)
      : args_(args),
        staged_(shared + args.smem.staged_offset + group * kRows * kStride),
        group_(group),
        thread_(thread),
        first_(RankOf(args) * (kTileM / 2)),
        rows_(kTileM >> args.pairs) {}

  // All four warps call it together.
  __device__ __forceinline__ void Store(const float (&sums)[kSums],
                                        const RowFinish& finish,
                                        const OutputTile& at) const {
    switch (args_.gemm.result) {
      case ResultType::kFloat16:
        return StoreAs<__half>(sums, finish, at);
      case ResultType::kBFloat16:
        return StoreAs<__nv_bfloat16>(sums, finish, at);
      case ResultType::kFloat32:
        return StoreAs<float>(sums, finish, at);
    }
  }

 private:
  static constexpr int kRows = StagedRows(kCodes);
  static constexpr int kStride = StagedRowStride(kCodes);
  static constexpr int kThreads = kGroupWarps * 32;
  static constexpr int kPieces = kStagedRowBytes / 16;

  template <typename Out>
  static constexpr int kStagedRowsPerM = sizeof(Out) / 2;
  // Rows of A that are transposed at a time.
  template <typename Out>
  static constexpr int kChunk = std::gcd(kRows / kStagedRowsPerM<Out>, kTileM);

  template <typename Out>
  __device__ __forceinline__ void StoreAs(const float (&sums)[kSums],
                                          const RowFinish& finish,
                                          const OutputTile& at) const {
#pragma unroll
    for (int m_row = 0; m_row < kTileM; m_row += kChunk<Out>) {
      if (m_row >= rows_) break;
      NamedBarrier(kFirstGroupBarrier + group_,
                   kThreads);  // no one reads any more
#pragma unroll
      for (int i = 0; i < kChunk<Out>; i += 16) {
        if (m_row + i == kTileM / 2 && rows_ < kTileM) break;
        Stage(sums, finish, m_row + i, i, Out());
      }
      NamedBarrier(kFirstGroupBarrier + group_, kThreads);
      Copy<Out>(at, m_row);
    }
  }

  static __device__ __forceinline__ float Finish(const float (&sums)[kSums],
                                                 const RowFinish& finish,
                                                 int i) {
    return (i & 2) == 0 ? fmaf(sums[i], finish.factor.x, finish.bias.x)
                        : fmaf(sums[i], finish.factor.y, finish.bias.y);
  }

  // Stages 16 rows of A from `row of A` on, as those of the chunk from `place`
  // on.
  template <typename Half>
  __device__ __forceinline__ void Stage(const float (&sums)[kSums],
                                        const RowFinish& finish, int m_row,
                                        int place, Half) const {
    const int lane = thread_ & 31;
    uint32_t values[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int first = m_row / 2 + 2 * i;
      values[i] = PackPair(Finish(sums, finish, first),
                           Finish(sums, finish, first + 1), Half());
    }
    const int row = place + (lane >> 4) * 8 + (lane & 7);
    const int piece = ((thread_ >> 5) * 2 + (lane >> 3 & 1)) ^ (lane & 7);
    StoreMatricesTransposed(SharedAddress(staged_) + row * kStride + piece * 16,
                            values);
  }
  __device__ __forceinline__ void Stage(const float (&sums)[kSums],
                                        const RowFinish& finish, int m_row,
                                        int place, float) const {
    const int lane = thread_ & 31;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int in_eight = (lane & 3) * 2 + (i & 1);
      const int row = (thread_ >> 5) * 16 + (i >> 1 & 1) * 8 + (lane >> 2);
      const int staged_row = 2 * (place + (i >> 2) * 8 + in_eight) + (row >> 5);
      const int piece = (row >> 2 & 7) ^ in_eight;
      *reinterpret_cast<float*>(staged_ + staged_row * kStride + piece * 16 +
                                (row & 3) * 4) =
          Finish(sums, finish, m_row / 2 + i);
    }
  }

  // Copies the chunk of rows of A that starts at `row of A` to C. A thread's
  // vectors are of the same columns of C, a fixed number of rows of A apart.
  template <typename Out>
  __device__ __forceinline__ void Copy(const OutputTile& at, int m_row) const {
    constexpr int kElements = 16 / sizeof(Out);
    constexpr int kRowsPerM = kStagedRowsPerM<Out>;
    constexpr int kRowStep = kThreads / kPieces;
    constexpr int kMStep = kRowStep / kRowsPerM;
    const int piece = thread_ % kPieces;
    const int first_row = thread_ / kPieces;
    const int of_chunk = first_row / kRowsPerM;
    const int64_t m =
        static_cast<int64_t>(at.m_block) * kTileM + first_ + m_row + of_chunk;
    const int64_t n = static_cast<int64_t>(at.n_block) * kPrefillTileN +
                      group_ * 64 + first_row % kRowsPerM * 32 +
                      piece * kElements;
    const int64_t elements = args_.gemm.n - n;
    const int rows_left = static_cast<int>(
        min(args_.gemm.m - m,
            static_cast<int64_t>(min(kChunk<Out>, rows_ - m_row))));
    const bool whole = args_.gemm.vectorized_store && elements >= kElements;
    Out* c = static_cast<Out*>(args_.gemm.c) + m * args_.gemm.n + n;
    const char* staged =
        staged_ + first_row * kStride + (piece ^ (of_chunk & 7)) * 16;
#pragma unroll 8
    for (int i = 0; i < kChunk<Out>; i += kMStep) {
      const uint4 values = *reinterpret_cast<const uint4*>(staged);
      if (i < rows_left) StoreVector(values, whole, elements, c);
      staged += kRowStep * kStride;
      c += kMStep * args_.gemm.n;
    }
  }

  // Stores the 16 bytes at once if they are `whole`, else the first `count`
  // elements.
  template <typename Out>
  static __device__ __forceinline__ void StoreVector(const uint4& values,
                                                     bool whole, int64_t count,
                                                     Out* c) {
    if (whole) {
      *reinterpret_cast<uint4*>(c) = values;
      return;
    }
    const Out* elements = reinterpret_cast<const Out*>(&values);
#pragma unroll
    for (int i = 0; i < static_cast<int>(16 / sizeof(Out)); ++i) {
      if (i < count) c[i] = elements[i];
    }
  }

  const PrefillArguments& args_;
  char* const staged_;
  const int group_;
  const int thread_;
  const int first_;  // row of A of the tile that is stored
  const int rows_;
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_PREFILL_GEMM_EPILOGUE_CUH_
