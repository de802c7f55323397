// SPDX-License-Identifier: Apache-2.0
//
// TOP_K of a row by a block of threads: a radix selection narrows the row down
// to candidates that fit in shared memory, which are sorted there. An element's
// key orders as TOP_K does, and no two keys of a row are equal: the order in
// which threads find candidates changes nothing. So the blocks of a cluster may
// have a part of a wide row each, and the first of them sort what the parts
// found.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_ROW_OPS_TOP_K_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_ROW_OPS_TOP_K_CUH_

#include <cstdint>

#include "kernels/cuda/device/row_ops/elements.cuh"
#include "kernels/cuda/device/row_ops/norms.cuh"

namespace qgemm::cuda {

// A key is the element's rank and, below it, the column counted backwards.
inline constexpr int kColumnBits = 20;
inline constexpr uint32_t kColumnMask = (1u << kColumnBits) - 1;
inline constexpr int kKeyBits = 32 + kColumnBits;
// The widest row of TOP_K.
inline constexpr int kMaxTopKWidth = 1 << kColumnBits;

// Bits that a pass over the row decides.
inline constexpr int kDigitBits = 11;
inline constexpr int kBins = 1 << kDigitBits;
// Counters of a bin, for lanes in turn: most elements of a row meet in few
// bins, and additions to one counter wait for each other.
inline constexpr int kCounters = 4;

// After four digits less than kMaxTopK keys lie above the last bin, and at
// most 2^8 in it.
inline constexpr int kMaxCandidates = 2048;
static_assert(kMaxCandidates >= 1024 + (1 << (kKeyBits - 4 * kDigitBits)),
              "the candidates of any row must fit after four digits");

// Chunks of a thread that are loaded before the first is looked at: a load
// takes longer than the work on it.
inline constexpr int kLoadsAhead = 4;

template <int kThreads>
struct TopKScratch {
  union {
    uint4 bins[kBins];  // kCounters each
    uint64_t keys[kMaxCandidates];
  };
  uint32_t warp_counts[kThreads / kWarp];
  // Written by one thread for all: the bin in which the k-th key is, the keys
  // of its pass above that bin and in it.
  uint32_t bin;
  uint32_t above;
  uint32_t inside;
  uint32_t found;  // candidates so far
};

struct TopKArgs {
  DeviceRow x;    // up to kMaxTopKWidth columns
  int k;          // 1 to 1024, and no more than x has columns
  float* values;  // [k], or null
  int32_t* ids;   // [k], or null
};

// A cluster's blocks, each with as many columns of the row or less; the keys
// that they find fit together.
struct TopKParts {
  int count;  // 1 where a block has the row, which then need not be a cluster's
  int part;   // of this block
};

// NaN above all, both zeros equal.
__device__ __forceinline__ uint32_t RankOf(float x) {
  const uint32_t bits = x == 0 ? 0 : __float_as_uint(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return ~0u;
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
}

__device__ __forceinline__ uint64_t KeyOf(float x, int column) {
  return static_cast<uint64_t>(RankOf(x)) << kColumnBits |
         (kColumnMask - static_cast<uint32_t>(column));
}

template <int kThreads>
class TopKRow {
 public:
  __device__ TopKRow(const TopKArgs& args, const TopKParts& parts,
                     TopKScratch<kThreads>& scratch)
      : args_(args),
        parts_(parts),
        scratch_(scratch),
        thread_(static_cast<int>(threadIdx.x)),
        begin_(BeginOf(parts.part)),
        end_(BeginOf(parts.part + 1)) {}

  // Called by all threads of the block, and of the cluster if there are parts.
  __device__ void Compute() {
    Select();
    if (parts_.count > 1) {
      ClusterArrive();
      ClusterWait();
      if (parts_.part == 0) TakeOthers();
      ClusterArrive();  // the others' keys have been read
      ClusterWait();
      if (parts_.part != 0) return;
      Sort(static_cast<uint32_t>(parts_.count * args_.k));
    }
    Store();
  }

 private:
  // The first column of a part.
  __device__ __forceinline__ int BeginOf(int part) const {
    const int chunks = (args_.x.width + kChunk - 1) / kChunk;
    const int of_part = (chunks + parts_.count - 1) / parts_.count;
    return min(part * of_part * kChunk, args_.x.width);
  }

  // Puts the k largest keys of the part at the front, or all, then zeros.
  __device__ __forceinline__ void Select() {
    uint32_t candidates = static_cast<uint32_t>(end_ - begin_);
    uint32_t above = 0;  // keys above those that begin with prefix_
    while (candidates > kMaxCandidates) {
      CountDigits();
      FindBin(static_cast<uint32_t>(args_.k) - above);
      above += scratch_.above;
      candidates = above + scratch_.inside;
      prefix_ = prefix_ << kDigitBits | scratch_.bin;
      shift_ -= kDigitBits;
      __syncthreads();
    }
    Collect();
    Sort(candidates);
  }

  // Puts the other parts' keys behind those of the first.
  __device__ __forceinline__ void TakeOthers() {
    const int taken = parts_.count * args_.k;
    for (int i = thread_; i < kMaxCandidates; i += kThreads) {
      if (i < args_.k) continue;
      scratch_.keys[i] =
          i < taken
              ? LoadFromCluster(SharedAddress(&scratch_.keys[i % args_.k]),
                                i / args_.k)
              : 0;
    }
    __syncthreads();
  }

  // Calls body(key) for the keys of this thread's columns.
  template <typename Body>
  __device__ __forceinline__ void ForKeys(const Body& body) const {
    constexpr int kStride = kThreads * kChunk;
    const DeviceRow& x = args_.x;
    for (int first = begin_ + thread_ * kChunk; first < end_;
         first += kStride * kLoadsAhead) {
      RawChunk raw[kLoadsAhead];
#pragma unroll
      for (int load = 0; load < kLoadsAhead; ++load) {
        const int column = first + load * kStride;
        raw[load] = LoadRaw(x, column, end_ - column);
      }
#pragma unroll
      for (int load = 0; load < kLoadsAhead; ++load) {
        const Chunk chunk = Unpack(x.type, raw[load]);
#pragma unroll
        for (int i = 0; i < kChunk; ++i) {
          const int column = first + load * kStride + i;
          if (column < end_) body(KeyOf(chunk.elements[i], column));
        }
      }
    }
  }

  // Counts the keys that begin with prefix_ by their next digit.
  __device__ __forceinline__ void CountDigits() {
    for (int bin = thread_; bin < kBins; bin += kThreads) {
      scratch_.bins[bin] = make_uint4(0, 0, 0, 0);
    }
    __syncthreads();
    uint32_t* const counters = reinterpret_cast<uint32_t*>(scratch_.bins);
    const int shift = shift_ - kDigitBits;
    ForKeys([&](uint64_t key) {
      if (key >> shift_ != prefix_) return;
      const int bin = static_cast<int>(key >> shift) & (kBins - 1);
      atomicAdd(&counters[bin * kCounters + thread_ % kCounters], 1u);
    });
    __syncthreads();
  }

  // The sum over threads up to this one.
  __device__ __forceinline__ uint32_t SumUpToThread(uint32_t count) {
    uint32_t sum = count;
    const int lane = thread_ % kWarp;
#pragma unroll
    for (int lanes = 1; lanes < kWarp; lanes *= 2) {
      const uint32_t before = __shfl_up_sync(kAllLanes, sum, lanes);
      if (lane >= lanes) sum += before;
    }
    if (lane == kWarp - 1) scratch_.warp_counts[thread_ / kWarp] = sum;
    __syncthreads();
    for (int warp = 0; warp < thread_ / kWarp; ++warp) {
      sum += scratch_.warp_counts[warp];
    }
    return sum;
  }

  // Finds the bin of the counted key that has `rank` - 1 above it. A thread has
  // consecutive bins, the first thread the highest.
  __device__ __forceinline__ void FindBin(uint32_t rank) {
    constexpr int kBinsOfThread = kBins / kThreads;
    static_assert(kBins % kThreads == 0, "threads have equal parts of bins");
    const int highest = kBins - 1 - thread_ * kBinsOfThread;
    uint32_t counts[kBinsOfThread];
    uint32_t count = 0;
#pragma unroll
    for (int i = 0; i < kBinsOfThread; ++i) {
      const uint4 bin = scratch_.bins[highest - i];
      counts[i] = bin.x + bin.y + bin.z + bin.w;
      count += counts[i];
    }
    uint32_t above = SumUpToThread(count) - count;
#pragma unroll
    for (int i = 0; i < kBinsOfThread; ++i) {
      if (above < rank && rank <= above + counts[i]) {
        scratch_.bin = static_cast<uint32_t>(highest - i);
        scratch_.above = above;
        scratch_.inside = counts[i];
      }
      above += counts[i];
    }
    __syncthreads();
  }

  // Puts the keys that begin with prefix_ or more into shared memory.
  __device__ __forceinline__ void Collect() {
    if (thread_ == 0) scratch_.found = 0;
    for (int i = thread_; i < kMaxCandidates; i += kThreads) {
      scratch_.keys[i] = 0;
    }
    __syncthreads();
    ForKeys([&](uint64_t key) {
      if (key >> shift_ < prefix_) return;
      scratch_.keys[atomicAdd(&scratch_.found, 1u)] = key;
    });
    __syncthreads();
  }

  // Sorts the largest key to the front, by Batcher's bitonic network.
  __device__ __forceinline__ void Sort(uint32_t candidates) {
    int size = 2;
    while (size < static_cast<int>(candidates)) size *= 2;
    for (int run = 2; run <= size; run *= 2) {
      for (int distance = run / 2; distance > 0; distance /= 2) {
        for (int pair = thread_; pair < size / 2; pair += kThreads) {
          const int low = 2 * pair - (pair & (distance - 1));
          const uint64_t a = scratch_.keys[low];
          const uint64_t b = scratch_.keys[low + distance];
          const bool falling = (low & run) == 0;
          if (falling ? a < b : b < a) {
            scratch_.keys[low] = b;
            scratch_.keys[low + distance] = a;
          }
        }
        __syncthreads();
      }
    }
  }

  // Elements are read again: their keys have lost the sign of zero.
  __device__ __forceinline__ void Store() {
    for (int i = thread_; i < args_.k; i += kThreads) {
      const uint32_t backwards =
          static_cast<uint32_t>(scratch_.keys[i]) & kColumnMask;
      const int column = static_cast<int>(kColumnMask - backwards);
      if (args_.values != nullptr) {
        args_.values[i] = LoadElement(args_.x, column);
      }
      if (args_.ids != nullptr) args_.ids[i] = column;
    }
  }

  const TopKArgs& args_;
  const TopKParts parts_;
  TopKScratch<kThreads>& scratch_;
  const int thread_;
  const int begin_;  // columns of this block
  const int end_;
  // The bits of the k-th key above bit shift_.
  uint64_t prefix_ = 0;
  int shift_ = kKeyBits;
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_ROW_OPS_TOP_K_CUH_
