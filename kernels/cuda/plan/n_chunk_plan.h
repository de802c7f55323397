// SPDX-License-Identifier: Apache-2.0
//
// The number of rows of W that the cuBLASLt path dequantizes at a time: an
// N-chunk.
// While a chunk is multiplied the next one is dequantized on SMs that the
// multiplication leaves idle.

#ifndef QGEMM_KERNELS_CUDA_PLAN_N_CHUNK_PLAN_H_
#define QGEMM_KERNELS_CUDA_PLAN_N_CHUNK_PLAN_H_

#include <cstdint>
#include <limits>

#include "base/host_device.h"
#include "kernels/cuda/layout/device_traits.h"

namespace qgemm::cuda {

// Bytes of a chunk in scratch, at most. Where a layer has more than one, two
// are there. A layer of 256 MiB at most may so be multiplied at once; of 28672
// columns, 1024 rows of A fill an H100 with chunks of 232 MiB.
inline constexpr int64_t kMaxNChunkBytes = int64_t{256} << 20;
// Chunks are of a multiple of so many rows: the long side of cuBLAS's largest
// tile.
inline constexpr int64_t kNChunkUnit = 256;

// Rows that A and C must have room for; those beyond m are padding, whose
// contents are ignored.
constexpr int64_t PaddedRows(int64_t m) { return RoundUp(m, int64_t{64}); }

// Elements from one row of A, or of a chunk, to the next: k and padding.
constexpr int64_t OperandStride(int64_t k) { return RoundUp(k, int64_t{8}); }

struct NChunkProblem {
  int64_t m = 0;  // rows of activations
  int64_t n = 0;  // rows of the layer
  int64_t k = 0;  // elements of a row in scratch
  // The most that other buffers have room for.
  int64_t max_rows = std::numeric_limits<int64_t>::max();
};

// The problem of m rows of A on an [n, k] layer. `needs_fp32_sums`: C goes
// through a buffer of fp32 sums, which bounds a chunk.
NChunkProblem NChunkProblemOf(int64_t m, int64_t n, int64_t k,
                              bool needs_fp32_sums);

// The expected time with chunks of `rows` rows, launches and the dequantization
// that nothing hides included.
double CublasMicroseconds(const NChunkProblem& problem, int64_t rows,
                          const DeviceTraits& device);

// Rows of a chunk: n, or a multiple of kNChunkUnit; fewer only where not even
// those fit, then a multiple of 16. m, n and k are at least 1.
int64_t NChunkRows(const NChunkProblem& problem, const DeviceTraits& device);

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_PLAN_N_CHUNK_PLAN_H_
