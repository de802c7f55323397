// SPDX-License-Identifier: Apache-2.0
//
// The row that a block of threads made last, or is reading, in shared memory,
// so that ops in a row load each element once. A thread reads only the chunks
// that it has kept itself: none of it needs a barrier.

#ifndef QGEMM_KERNELS_CUDA_DEVICE_ROW_OPS_HELD_ROW_CUH_
#define QGEMM_KERNELS_CUDA_DEVICE_ROW_OPS_HELD_ROW_CUH_

#include <cstdint>

#include "kernels/cuda/device/row_ops/elements.cuh"

namespace qgemm::cuda {

// Chunks of a thread: rows of up to this many for each thread are held.
inline constexpr int kHeldChunks = 2;

// Chunks in two halves, so that the lanes of a warp meet no bank twice.
template <int kThreads>
struct HeldChunks {
  float4 low[kHeldChunks * kThreads];
  float4 high[kHeldChunks * kThreads];
};

// A view of that memory by one thread, which owns the chunks at the columns
// kChunk * (thread + i * kThreads). All threads name and drop rows alike.
template <int kThreads>
class HeldRow {
 public:
  __device__ explicit HeldRow(HeldChunks<kThreads>& chunks) : chunks_(chunks) {}

  // Says that the chunks kept are those of `row`.
  __device__ __forceinline__ void Name(const DeviceRow& row) {
    const bool fits = row.width <= kHeldChunks * kThreads * kChunk;
    elements_ = fits ? row.elements : nullptr;
  }

  // Nothing is held, nor kept until the next Name.
  __device__ __forceinline__ void Drop() { elements_ = nullptr; }

  __device__ __forceinline__ bool Holds(const DeviceRow& row) const {
    return row.elements != nullptr && elements_ == row.elements;
  }

  // Loads the thread's chunks of a row that is not held, if it fits.
  __device__ __forceinline__ void Hold(const DeviceRow& row) {
    if (Holds(row)) return;
    Name(row);
    if (elements_ == nullptr) return;
    for (int first = static_cast<int>(threadIdx.x) * kChunk; first < row.width;
         first += kThreads * kChunk) {
      Keep(first, LoadChunk(row, first, min(kChunk, row.width - first)));
    }
  }

  // Keeps the thread's own chunk at column `first`, if rows fit that have it.
  __device__ __forceinline__ void Keep(int first, const Chunk& chunk) {
    const int index = first / kChunk;
    if (index >= kHeldChunks * kThreads) return;
    const float* const x = chunk.elements;
    chunks_.low[index] = make_float4(x[0], x[1], x[2], x[3]);
    chunks_.high[index] = make_float4(x[4], x[5], x[6], x[7]);
  }

  // The thread's own chunk at column `first`: the one kept, else from memory.
  __device__ __forceinline__ Chunk Read(const DeviceRow& row, int first,
                                        int count) const {
    if (!Holds(row)) return LoadChunk(row, first, count);
    const float4 low = chunks_.low[first / kChunk];
    const float4 high = chunks_.high[first / kChunk];
    return {{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
  }

 private:
  HeldChunks<kThreads>& chunks_;
  const uint8_t* elements_ = nullptr;
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_DEVICE_ROW_OPS_HELD_ROW_CUH_
