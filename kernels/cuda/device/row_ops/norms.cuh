// SPDX-License-Identifier: Apache-2.0
//
// RMS_NORM and LAYER_NORM of a row by a block of threads. A team of threads
// has a run of columns that share a mean: the whole block, or a part of a warp.
// Which columns a thread adds, and in which order, follows from the run's width
// alone.
//
// Sums are fp32, in chains of one addition for each chunk of a thread and at
// most twelve more. Runs whose mean of squares is near the ends of fp32's
// range, infinite or NaN are computed once more in fp64, which holds the
// squares of all fp32 numbers.
//
// Threads meet at a named barrier, so that they may be a part of a block.
// `Held` keeps the chunks of a row that a thread has read, as HeldRow does.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_ROW_OPS_NORMS_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_ROW_OPS_NORMS_CUH_

#include <cmath>
#include <cstdint>

#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/device/row_ops/elements.cuh"

namespace qgemm::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffffu;

// The named barrier of the threads that compute a norm.
inline constexpr int kNormBarrier = 1;

// Runs up to this width are a warp's or less: a lane has up to four chunks.
inline constexpr int kMaxWarpRun = kWarp * kChunk * 4;

struct NormArgs {
  bool centered;  // LAYER_NORM: subtracts the mean
  float eps;
  int32_t run;  // columns that share a mean
  DeviceRow x;
  DeviceRow weight;  // as wide as x or as a run
  DeviceRow bias;    // as wide as x
  DeviceRow result;
};

// Elements of a row, or those that stand for an absent one.
__device__ __forceinline__ Chunk UnpackOr(const DeviceRow& row,
                                          const RawChunk& raw, float absent) {
  if (row.elements != nullptr) return Unpack(row.type, raw);
  Chunk chunk;
#pragma unroll
  for (int i = 0; i < kChunk; ++i) chunk.elements[i] = absent;
  return chunk;
}

// The threads that share a run, a power of two of them.
struct Team {
  int size;
  int rank;   // of this thread
  int begin;  // first column of the run
  int run;    // its columns; 0 where this team has none
};

// Sums of a block's warps. Two sets in turn, so that one barrier is enough.
template <int kThreads>
struct NormScratch {
  double sums[2][kThreads / kWarp];
};

template <int kThreads, typename Held>
class NormRun {
 public:
  __device__ NormRun(const NormArgs& args, const Team& team,
                     NormScratch<kThreads>& scratch, Held& held)
      : args_(args), team_(team), scratch_(scratch), held_(held) {}

  // Called by all threads together.
  __device__ void Compute() {
    const int first = FirstColumn();
    first_constants_ = LoadConstants(first, team_.begin + team_.run - first);
    const Statistics<float> fast = Measure<float>();
    // False for NaN.
    const bool usual = fast.variance >= 0x1p-80f && fast.variance <= 0x1p100f;
    if (usual) Normalize(fast);
    // All lanes, since teams of one warp sum together.
    if (__any_sync(kAllLanes, !usual)) {
      const Statistics<double> exact = Measure<double>();
      if (!usual) Normalize(exact);
    }
  }

 private:
  template <typename Number>
  struct Statistics {
    Number mean;
    Number variance;  // around the mean, plus eps
  };

  struct Constants {
    RawChunk weight;
    RawChunk bias;
  };

  // Column of this thread's first chunk; beyond the run if it has none.
  __device__ __forceinline__ int FirstColumn() const {
    return team_.begin + team_.rank * kChunk;
  }

  // Calls body(first, count) for this thread's chunks, in order.
  template <typename Body>
  __device__ __forceinline__ void ForChunks(const Body& body) const {
    for (int at = team_.rank * kChunk; at < team_.run;
         at += team_.size * kChunk) {
      body(team_.begin + at, min(kChunk, team_.run - at));
    }
  }

  template <typename Number>
  __device__ __forceinline__ Number TeamSum(Number sum) {
    for (int lanes = min(team_.size, kWarp) / 2; lanes > 0; lanes /= 2) {
      sum += __shfl_xor_sync(kAllLanes, sum, lanes);
    }
    if (team_.size < kThreads) return sum;
    double* const sums = scratch_.sums[turn_];
    turn_ ^= 1;
    const int thread = static_cast<int>(threadIdx.x);
    if (thread % kWarp == 0) sums[thread / kWarp] = sum;
    NamedBarrier(kNormBarrier, kThreads);
    sum = static_cast<Number>(sums[thread % (kThreads / kWarp)]);
#pragma unroll
    for (int lanes = kThreads / kWarp / 2; lanes > 0; lanes /= 2) {
      sum += __shfl_xor_sync(kAllLanes, sum, lanes);
    }
    return sum;
  }

  // The mean of term(x) over the run.
  template <typename Number, typename Term>
  __device__ __forceinline__ Number Mean(const Term& term) {
    Number sums[kChunk] = {};
    ForChunks([&](int first, int count) {
      const Chunk x = held_.Read(args_.x, first, count);
#pragma unroll
      for (int i = 0; i < kChunk; ++i) {
        if (i < count) sums[i] = term(sums[i], x.elements[i]);
      }
    });
#pragma unroll
    for (int distance = kChunk / 2; distance > 0; distance /= 2) {
#pragma unroll
      for (int i = 0; i < distance; ++i) sums[i] += sums[i + distance];
    }
    return TeamSum(sums[0]) / static_cast<Number>(args_.run);
  }

  template <typename Number>
  __device__ __forceinline__ Statistics<Number> Measure() {
    Statistics<Number> statistics = {};
    if (args_.centered) {
      statistics.mean =
          Mean<Number>([](Number sum, Number x) { return sum + x; });
    }
    const Number mean = statistics.mean;
    statistics.variance = Mean<Number>(
        [mean](Number sum, Number x) { return sum + (x - mean) * (x - mean); });
    statistics.variance += args_.eps;
    return statistics;
  }

  // Loads a chunk of weight and bias, where there are any.
  __device__ __forceinline__ Constants LoadConstants(int first,
                                                     int count) const {
    Constants constants = {};
    if (args_.weight.elements != nullptr) {
      const bool of_run = args_.weight.width != args_.x.width;
      constants.weight =
          LoadRaw(args_.weight, of_run ? first - team_.begin : first, count);
    }
    if (args_.bias.elements != nullptr) {
      constants.bias = LoadRaw(args_.bias, first, count);
    }
    return constants;
  }

  template <typename Number>
  __device__ __forceinline__ void Normalize(
      const Statistics<Number>& statistics) {
    const Number scale = 1 / sqrt(statistics.variance);
    ForChunks([&](int first, int count) {
      const Chunk x = held_.Read(args_.x, first, count);
      const Constants constants = first == FirstColumn()
                                      ? first_constants_
                                      : LoadConstants(first, count);
      const Chunk weight = UnpackOr(args_.weight, constants.weight, 1.0f);
      // The zero that leaves every number, and -0 too, as it is.
      const Chunk bias = UnpackOr(args_.bias, constants.bias, -0.0f);
      Chunk result;
#pragma unroll
      for (int i = 0; i < kChunk; ++i) {
        const Number y = (x.elements[i] - statistics.mean) * scale;
        result.elements[i] = static_cast<float>(
            fma(y, Number{weight.elements[i]}, Number{bias.elements[i]}));
      }
      RoundAndStore(args_.result, first, count, result);
      if (args_.run == args_.x.width) held_.Keep(first, result);
    });
  }

  const NormArgs& args_;
  const Team team_;
  NormScratch<kThreads>& scratch_;
  Held& held_;
  // Those of the thread's first chunk, loaded while the sums are under way.
  Constants first_constants_ = {};
  int turn_ = 0;
};

// Threads that share a run of `run` columns where a row has `runs` of them.
template <int kThreads>
__device__ __forceinline__ int TeamSize(int run, int runs) {
  if (runs == 1 || run > kMaxWarpRun) return kThreads;
  int size = 1;
  while (size < kWarp && size * kChunk < run) size *= 2;
  return size;
}

// Called by the first kThreads threads of the block together, with a barrier
// before it and behind it.
template <int kThreads, typename Held>
__device__ __forceinline__ void ComputeNorm(const NormArgs& args,
                                            NormScratch<kThreads>& scratch,
                                            Held& held) {
  const int runs = args.x.width / args.run;
  const int size = TeamSize<kThreads>(args.run, runs);
  const int thread = static_cast<int>(threadIdx.x);
  // The columns of a thread are those that it holds if there is one run.
  if (runs == 1) {
    held.Hold(args.x);
  } else {
    held.Drop();
  }
  for (int first = 0; first < runs; first += kThreads / size) {
    const int index = first + thread / size;
    const Team team = {size, thread % size, index * args.run,
                       index < runs ? args.run : 0};
    NormRun<kThreads, Held>(args, team, scratch, held).Compute();
    // The next run's sums take the same places.
    if (size == kThreads && runs > 1) NamedBarrier(kNormBarrier, kThreads);
  }
  if (runs == 1) held.Name(args.result);
}

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_ROW_OPS_NORMS_CUH_
