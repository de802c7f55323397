// SPDX-License-Identifier: Apache-2.0
//
// A case is cut into the launches that the backend would make. Needs no GPU.

#include "bench/cuda/gpu_gemm.h"

#include <utility>

#include "gtest/gtest.h"
#include "kernels/cuda/plan/tile_plan.h"

namespace qgemm::cuda {
namespace {

BenchCase Case(int64_t m, KernelPath kernel) {
  BenchCase one;
  one.format = "kbit4";
  one.shape = {8192, 28672};
  one.m = m;
  one.kernel = kernel;
  return one;
}

const DeviceTraits kH100;  // without code for wgmma

// A layer of that shape, without its memory.
CudaWeights Layer(bool dense) {
  CudaWeightsParts parts;
  parts.shape.n = 28672;
  parts.shape.k = 8192;
  parts.shape.dense = dense;
  if (!dense) {
    parts.shape.bits = 4;
    parts.shape.group_size = 32;
    parts.shape.scale_type = ScaleType::kE4m4;
    parts.tiled.layout = *PlanTileLayout(parts.shape, kH100);
  }
  return CudaWeights(std::move(parts));
}

int64_t RowsOf(const GemmScheme& scheme) {
  int64_t rows = 0;
  for (const PlannedLaunch& launch : scheme.launches) {
    EXPECT_EQ(launch.row, rows);
    rows += launch.rows;
  }
  return rows;
}

TEST(GemmSchemeTest, FewRowsAreOneDecodeLaunch) {
  const auto scheme =
      GpuGemm::SchemeOf(Case(64, KernelPath::kAuto), Layer(false), kH100);
  EXPECT_EQ(scheme.choice.path, KernelPath::kDecode);
  EXPECT_EQ(scheme.launches.size(), 1u);
  EXPECT_EQ(RowsOf(scheme), 64);
  EXPECT_FALSE(scheme.prepares);
}

TEST(GemmSchemeTest, ManyRowsAreOneCublasLaunch) {
  const auto scheme =
      GpuGemm::SchemeOf(Case(4096, KernelPath::kAuto), Layer(false), kH100);
  EXPECT_EQ(scheme.choice.path, KernelPath::kCublas);
  EXPECT_EQ(scheme.launches.size(), 1u);
}

TEST(GemmSchemeTest, AForcedDecodeKernelTakesFullLaunches) {
  const auto scheme =
      GpuGemm::SchemeOf(Case(600, KernelPath::kDecode), Layer(false), kH100);
  EXPECT_EQ(scheme.choice.path, KernelPath::kDecode);
  EXPECT_EQ(scheme.launches.size(), 3u);
  EXPECT_EQ(RowsOf(scheme), 600);
}

TEST(GemmSchemeTest, ModeA8HasOneKernelForAnyNumberOfRows) {
  BenchCase one = Case(600, KernelPath::kCublas);
  one.format = "q4_0";
  one.mode = ComputeMode::kA8;
  const auto scheme = GpuGemm::SchemeOf(one, Layer(false), kH100);
  EXPECT_EQ(scheme.choice.path, KernelPath::kW4A8);
  EXPECT_EQ(scheme.launches.size(), 1u);
  EXPECT_EQ(RowsOf(scheme), 600);
}

TEST(GemmSchemeTest, ModeA32HasOneKernelForAnyNumberOfRows) {
  BenchCase one = Case(600, KernelPath::kCublas);
  one.format = "ternary";
  one.dtype = FloatType::kFloat32;
  one.mode = ComputeMode::kA32;
  const auto scheme = GpuGemm::SchemeOf(one, Layer(false), kH100);
  EXPECT_EQ(scheme.choice.path, KernelPath::kA32);
  EXPECT_EQ(scheme.launches.size(), 1u);
  EXPECT_FALSE(scheme.prepares);
  EXPECT_EQ(RowsOf(scheme), 600);
}

TEST(GemmSchemeTest, AForcedCublasPathTakesASingleRow) {
  const auto scheme =
      GpuGemm::SchemeOf(Case(1, KernelPath::kCublas), Layer(false), kH100);
  EXPECT_EQ(scheme.choice.path, KernelPath::kCublas);
  EXPECT_EQ(scheme.padded_rows(), 64);
}

TEST(GemmSchemeTest, DenseLayersHaveTheCublasPathAlone) {
  const auto scheme =
      GpuGemm::SchemeOf(Case(1, KernelPath::kAuto), Layer(true), kH100);
  EXPECT_EQ(scheme.choice.path, KernelPath::kCublas);
  ASSERT_EQ(scheme.launches.size(), 1u);
  // Summed as shared launches are.
  EXPECT_TRUE(scheme.launches[0].shared);
}

TEST(GemmSchemeTest, SinglesAreRoundedAndCutToTheBackendsGroups) {
  BenchCase singles = Case(4096, KernelPath::kCublas);
  singles.dtype = FloatType::kFloat32;
  const auto scheme = GpuGemm::SchemeOf(singles, Layer(false), kH100);
  EXPECT_TRUE(scheme.prepares);
  EXPECT_EQ(scheme.operand_type, FloatType::kBFloat16);
  EXPECT_EQ(scheme.launches.size(), 2u);
  EXPECT_EQ(RowsOf(scheme), 4096);
}

}  // namespace
}  // namespace qgemm::cuda
