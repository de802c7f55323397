// SPDX-License-Identifier: Apache-2.0
//
// Costs every size of N-chunk and takes the cheapest.

#include "kernels/cuda/plan/n_chunk_plan.h"

#include <algorithm>
#include <cmath>

#include "base/checked_math.h"

namespace qgemm::cuda {
namespace {

constexpr int64_t kTileRows128 = 128;
// Bytes of a chunk of C in fp32.
constexpr int64_t kSumsBytes = int64_t{64} << 20;
constexpr int64_t kNarrowNChunkUnit = 16;

// A wave is a tile of 128 x 256 on every SM. cuBLAS at m = 4096 on
// an H100 takes 12.4 to 13.1 ns a wave for each of k over nine layers, from
// 14336x4096 (4 waves, 713 us) to 8192x28672 (28 waves, 2838 us).
constexpr double kWaveMicroseconds = 12.6e-3;
// cuBLAS splits an uneven last wave into smaller tiles: N-chunks of 0.15 to 1.2
// waves took what 73 to 86 % of the SMs would.
constexpr double kUnevenEfficiency = 0.8;
// Less than a wave: 2048x1536, 1024x4096 and 4096x4096 at m = 128 to 2048.
constexpr double kFewTilesMicroseconds = 3.3;
constexpr double kFewTilesColumn = 2.4e-3;
constexpr double kFewTilesShare = 0.38;
// Start and end of a multiplication and of a dequantization; a small kernel
// with nothing to do takes 2 to 3 us in a graph.
constexpr double kMultiplyMicroseconds = 4;
constexpr double kDequantizeMicroseconds = 2;
// A weight is 2 bytes written and half a byte read, at DRAM's 3 TB/s; what
// stays in the cache is written at twice the rate.
constexpr double kDramMicroseconds = 0.85e-6;
constexpr double kCacheMicroseconds = 0.45e-6;
// Beside another kernel dequantizing is bound by instructions: 6 a weight
// (SASS) and 2 cycles of shared memory's port a 16 weights.
constexpr double kIssueMicroseconds = 0.28e-6;
// The figures above are no better than this: less gain is not worth a split.
constexpr double kWorthASplit = 1.01;

struct Product {
  double microseconds = 0;
  double idle = 0;  // of all SMs
};

Product Multiply(const NChunkProblem& problem, int64_t rows,
                 const DeviceTraits& device) {
  const int64_t tiles =
      CeilDiv(problem.m, kTileRows128) * CeilDiv(rows, kNChunkUnit);
  const double waves =
      static_cast<double>(tiles) / std::max(1, device.sm_count);
  const double wave = kWaveMicroseconds * static_cast<double>(problem.k);
  const double whole = std::ceil(waves);
  const double uneven = waves / kUnevenEfficiency;
  Product product;
  product.microseconds = kMultiplyMicroseconds + std::min(whole, uneven) * wave;
  if (whole <= uneven) product.idle = (whole - waves) * wave;
  return product;
}

// Time of the whole layer at once: cuBLAS makes smaller tiles of less than a
// wave.
double MultiplyWhole(const NChunkProblem& problem, const DeviceTraits& device) {
  const double time = Multiply(problem, problem.n, device).microseconds;
  const double wave = kWaveMicroseconds * static_cast<double>(problem.k);
  const int64_t tiles =
      CeilDiv(problem.m, kTileRows128) * CeilDiv(problem.n, kNChunkUnit);
  const double work =
      wave * static_cast<double>(tiles) / std::max(1, device.sm_count);
  if (work >= wave) return time;
  const double few = kFewTilesMicroseconds +
                     kFewTilesColumn * static_cast<double>(problem.k) +
                     kFewTilesShare * work;
  return std::min(time, std::max(work, few));
}

double Dequantize(double weights, const DeviceTraits& device) {
  // The codes pass through the cache as well, and A and C.
  const bool stays = weights * 2 <= 0.6 * static_cast<double>(device.l2_bytes);
  return weights * (stays ? kCacheMicroseconds : kDramMicroseconds);
}

// Dequantization time not hidden behind idle SM time.
double Exposed(double weights, double idle, const DeviceTraits& device) {
  const double hidden = idle / (weights * kIssueMicroseconds);
  return Dequantize(weights, device) * std::max(0.0, 1 - hidden);
}

int64_t MostRows(const NChunkProblem& problem) {
  const int64_t fitting =
      std::min(kMaxNChunkBytes / (2 * problem.k), problem.max_rows);
  if (fitting >= problem.n) return problem.n;
  const int64_t unit = fitting >= kNChunkUnit ? kNChunkUnit : kNarrowNChunkUnit;
  return std::max(kNarrowNChunkUnit, fitting / unit * unit);
}

// Rows of a chunk whose sums have room; a multiple of a cuBLAS tile's side.
int64_t SumsRows(int64_t m) {
  const int64_t rows = kSumsBytes / (m * 4);
  return std::max<int64_t>(kNChunkUnit, rows / kNChunkUnit * kNChunkUnit);
}

}  // namespace

NChunkProblem NChunkProblemOf(int64_t m, int64_t n, int64_t k,
                              bool needs_fp32_sums) {
  NChunkProblem problem;
  problem.m = PaddedRows(m);
  problem.n = n;
  problem.k = OperandStride(k);
  if (needs_fp32_sums) problem.max_rows = SumsRows(problem.m);
  return problem;
}

double CublasMicroseconds(const NChunkProblem& problem, int64_t rows,
                          const DeviceTraits& device) {
  const auto weights_of = [&](int64_t n_chunk_rows) {
    return static_cast<double>(n_chunk_rows) * static_cast<double>(problem.k);
  };
  const int64_t last_rows = problem.n - (CeilDiv(problem.n, rows) - 1) * rows;
  const auto before_last = static_cast<double>(CeilDiv(problem.n, rows) - 1);
  const double first =
      kDequantizeMicroseconds +
      Dequantize(weights_of(std::min(rows, problem.n)), device);
  if (before_last < 1) return first + MultiplyWhole(problem, device);
  const Product product = Multiply(problem, rows, device);
  double time = first + Multiply(problem, last_rows, device).microseconds;
  time += before_last * (product.microseconds + kDequantizeMicroseconds);
  time += (before_last - 1) * Exposed(weights_of(rows), product.idle, device);
  return time + Exposed(weights_of(last_rows), product.idle, device);
}

int64_t NChunkRows(const NChunkProblem& problem, const DeviceTraits& device) {
  const int64_t most = MostRows(problem);
  int64_t best = most;
  double best_time = CublasMicroseconds(problem, most, device) / kWorthASplit;
  for (int64_t rows = kNChunkUnit; rows < most; rows += kNChunkUnit) {
    const double time = CublasMicroseconds(problem, rows, device);
    if (time >= best_time) continue;
    best = rows;
    best_time = time;
  }
  return best;
}

}  // namespace qgemm::cuda
