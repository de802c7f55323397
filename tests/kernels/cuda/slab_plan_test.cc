// SPDX-License-Identifier: Apache-2.0
//
// What every slab must be, over the shapes of real layers, and what slabs are
// for: fewer waves and less waiting than one slab after another.

#include "kernels/cuda/tuning/slab_plan.h"

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

class SlabPlanTest : public ::testing::TestWithParam<LayerShape> {
 protected:
  static SlabProblem Problem(int64_t m) {
    SlabProblem problem;
    problem.m = m;
    problem.n = GetParam().n;
    problem.k = GetParam().k;
    return problem;
  }

  const DeviceTraits device_ = {};  // an H100
};

TEST_P(SlabPlanTest, IsTheLayerOrAMultipleOfATile) {
  const auto [n, k] = GetParam();
  for (const int64_t m : kRows) {
    const int64_t rows = SlabRows(Problem(m), device_);
    ASSERT_GE(rows, 1);
    if (rows == n) continue;
    EXPECT_LE(rows, n);
    const bool fits = kSlabUnitRows * k * 2 <= kMaxSlabBytes;
    EXPECT_EQ(rows % (fits ? kSlabUnitRows : 16), 0) << "m = " << m;
  }
}

TEST_P(SlabPlanTest, KeepsToTheBoundWhereSixteenRowsDo) {
  const int64_t k = GetParam().k;
  for (const int64_t m : kRows) {
    const int64_t rows = SlabRows(Problem(m), device_);
    EXPECT_LE(rows * k * 2, std::max(kMaxSlabBytes, 16 * k * 2)) << m;
  }
}

TEST_P(SlabPlanTest, KeepsToTheRowsThatOthersHaveRoomFor) {
  SlabProblem problem = Problem(4096);
  for (const int64_t max_rows : {256, 1000, 4096}) {
    problem.max_rows = max_rows;
    EXPECT_LE(SlabRows(problem, device_), max_rows);
  }
}

TEST_P(SlabPlanTest, CostsNoMoreThanTheLargestSlab) {
  const auto [n, k] = GetParam();
  // The whole layer, whole tiles of cuBLAS, or what fits of one.
  const int64_t fitting = kMaxSlabBytes / (k * 2);
  const int64_t unit = fitting >= kSlabUnitRows ? kSlabUnitRows : 16;
  const int64_t largest =
      fitting >= n ? n : std::max<int64_t>(16, fitting / unit * unit);
  for (const int64_t m : kRows) {
    const SlabProblem problem = Problem(m);
    const int64_t rows = SlabRows(problem, device_);
    EXPECT_LE(SlabMicroseconds(problem, rows, device_),
              SlabMicroseconds(problem, largest, device_))
        << "m = " << m;
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, SlabPlanTest, ::testing::ValuesIn(kLayers));

// With 4096 rows a slab of 1024 is 128 of 132 tiles, one of 1280 is 160: two
// waves, the second all but empty.
TEST(SlabMicrosecondsTest, CountsWholeWaves) {
  const DeviceTraits device;
  const SlabProblem problem = {4096, 5120, 28672};
  EXPECT_LT(SlabMicroseconds(problem, 1024, device),
            SlabMicroseconds(problem, 1280, device));
}

TEST(SlabMicrosecondsTest, CountsStartsOfKernels) {
  const DeviceTraits device;
  const SlabProblem problem = {4096, 65536, 64};
  EXPECT_LT(SlabMicroseconds(problem, 65536, device),
            SlabMicroseconds(problem, 1024, device));
}

int64_t Waves(int64_t m, int64_t n, int64_t rows, const DeviceTraits& device) {
  int64_t waves = 0;
  for (int64_t row = 0; row < n; row += rows) {
    const int64_t tiles =
        CeilDiv(m, 128) * CeilDiv(std::min(rows, n - row), kSlabUnitRows);
    waves += CeilDiv(tiles, device.multiprocessors);
  }
  return waves;
}

// The two layers whose dequantization is dearest.
TEST(SlabRowsTest, CutsLargeLayersWithoutAnotherWave) {
  const DeviceTraits device;
  for (const LayerShape& layer : {kLayers[0], kLayers[1]}) {
    const int64_t rows = SlabRows({4096, layer.n, layer.k}, device);
    EXPECT_LT(rows, layer.n);
    EXPECT_EQ(Waves(4096, layer.n, rows, device),
              Waves(4096, layer.n, layer.n, device));
  }
}

TEST(SlabRowsTest, LeavesSmallLayersWhole) {
  EXPECT_EQ(SlabRows({4096, 1536, 2048}, DeviceTraits()), 1536);
  EXPECT_EQ(SlabRows({512, 4096, 1024}, DeviceTraits()), 4096);
}

TEST(SlabRowsTest, GoesByTheDevice) {
  DeviceTraits half;
  half.multiprocessors = 66;
  const SlabProblem problem = {1024, 8192, 28672};
  EXPECT_LT(SlabRows(problem, half), SlabRows(problem, DeviceTraits()));
}

}  // namespace
}  // namespace qgemm::cuda
