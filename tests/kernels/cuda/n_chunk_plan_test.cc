// SPDX-License-Identifier: Apache-2.0
//
// Properties of every N-chunk, over the shapes of real layers, and what
// N-chunks are for: fewer waves and less waiting than one N-chunk after
// another.

#include "kernels/cuda/plan/n_chunk_plan.h"

#include <algorithm>
#include <cstdint>
#include <ostream>

#include "base/checked_math.h"
#include "gtest/gtest.h"

namespace qgemm::cuda {
namespace {

struct LayerShape {
  int64_t n;
  int64_t k;
};

void PrintTo(const LayerShape& shape, std::ostream* out) {
  *out << shape.n << "x" << shape.k;
}

constexpr LayerShape kLayers[] = {
    {28672, 8192},  {8192, 28672}, {10240, 8192},  {8192, 8192},
    {14336, 4096},  {4096, 14336}, {11008, 4096},  {4096, 11008},
    {4096, 4096},   {13824, 5120}, {18944, 3584},  {3584, 18944},
    {10240, 2048},  {1536, 2048},  {4096, 1024},   {8192, 14336},
    {1, 8},         {17, 136},     {1, 1 << 24},   {300, 1 << 20},
    {100, 1 << 22}, {1 << 20, 8},  {128256, 8192}, {32000, 4096},
    {255, 8192},
};
constexpr int64_t kRows[] = {64, 128, 512, 1024, 2048, 4096};

class NChunkPlanTest : public ::testing::TestWithParam<LayerShape> {
 protected:
  static NChunkProblem Problem(int64_t m) {
    NChunkProblem problem;
    problem.m = m;
    problem.n = GetParam().n;
    problem.k = GetParam().k;
    return problem;
  }

  const DeviceTraits device_ = {};  // an H100
};

TEST_P(NChunkPlanTest, IsTheLayerOrAMultipleOfATile) {
  const auto [n, k] = GetParam();
  for (const int64_t m : kRows) {
    const int64_t rows = NChunkRows(Problem(m), device_);
    ASSERT_GE(rows, 1);
    if (rows == n) continue;
    EXPECT_LE(rows, n);
    const bool fits = kNChunkUnit * k * 2 <= kMaxNChunkBytes;
    EXPECT_EQ(rows % (fits ? kNChunkUnit : 16), 0) << "m = " << m;
  }
}

TEST_P(NChunkPlanTest, KeepsToTheBoundWhereSixteenRowsDo) {
  const int64_t k = GetParam().k;
  for (const int64_t m : kRows) {
    const int64_t rows = NChunkRows(Problem(m), device_);
    EXPECT_LE(rows * k * 2, std::max(kMaxNChunkBytes, 16 * k * 2)) << m;
  }
}

TEST_P(NChunkPlanTest, KeepsToTheRowsThatOthersHaveRoomFor) {
  NChunkProblem problem = Problem(4096);
  for (const int64_t max_rows : {256, 1000, 4096}) {
    problem.max_rows = max_rows;
    EXPECT_LE(NChunkRows(problem, device_), max_rows);
  }
}

TEST_P(NChunkPlanTest, CostsNoMoreThanTheLargestChunk) {
  const auto [n, k] = GetParam();
  // The whole layer, whole tiles of cuBLAS, or what fits of one.
  const int64_t fitting = kMaxNChunkBytes / (k * 2);
  const int64_t unit = fitting >= kNChunkUnit ? kNChunkUnit : 16;
  const int64_t largest =
      fitting >= n ? n : std::max<int64_t>(16, fitting / unit * unit);
  for (const int64_t m : kRows) {
    const NChunkProblem problem = Problem(m);
    const int64_t rows = NChunkRows(problem, device_);
    EXPECT_LE(CublasMicroseconds(problem, rows, device_),
              CublasMicroseconds(problem, largest, device_))
        << "m = " << m;
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, NChunkPlanTest, ::testing::ValuesIn(kLayers));

// With 4096 rows a N-chunk of 1024 is 128 of 132 tiles, one of 1280 is 160: two
// waves, the second all but empty.
TEST(CublasMicrosecondsTest, CountsWholeWaves) {
  const DeviceTraits device;
  const NChunkProblem problem = {4096, 5120, 28672};
  EXPECT_LT(CublasMicroseconds(problem, 1024, device),
            CublasMicroseconds(problem, 1280, device));
}

TEST(CublasMicrosecondsTest, CountsStartsOfKernels) {
  const DeviceTraits device;
  const NChunkProblem problem = {4096, 65536, 64};
  EXPECT_LT(CublasMicroseconds(problem, 65536, device),
            CublasMicroseconds(problem, 1024, device));
}

int64_t Waves(int64_t m, int64_t n, int64_t rows, const DeviceTraits& device) {
  int64_t waves = 0;
  for (int64_t row = 0; row < n; row += rows) {
    const int64_t tiles =
        CeilDiv(m, 128) * CeilDiv(std::min(rows, n - row), kNChunkUnit);
    waves += CeilDiv(tiles, device.sm_count);
  }
  return waves;
}

// The two layers whose dequantization is dearest.
TEST(NChunkRowsTest, CutsLargeLayersWithoutAnotherWave) {
  const DeviceTraits device;
  for (const LayerShape& layer : {kLayers[0], kLayers[1]}) {
    const int64_t rows = NChunkRows({4096, layer.n, layer.k}, device);
    EXPECT_LT(rows, layer.n);
    EXPECT_EQ(Waves(4096, layer.n, rows, device),
              Waves(4096, layer.n, layer.n, device));
  }
}

TEST(NChunkRowsTest, LeavesSmallLayersWhole) {
  EXPECT_EQ(NChunkRows({4096, 1536, 2048}, DeviceTraits()), 1536);
  EXPECT_EQ(NChunkRows({512, 4096, 1024}, DeviceTraits()), 4096);
}

TEST(NChunkRowsTest, GoesByTheDevice) {
  DeviceTraits half;
  half.sm_count = 66;
  const NChunkProblem problem = {1024, 8192, 28672};
  EXPECT_LT(NChunkRows(problem, half), NChunkRows(problem, DeviceTraits()));
}

}  // namespace
}  // namespace qgemm::cuda
