// SPDX-License-Identifier: Apache-2.0
//
// A case is cut into the launches that the backend would make. Needs no GPU.

#include "bench/cuda/gpu_gemm.h"

#include <utility>

#include "gtest/gtest.h"

namespace qgemm::cuda {
namespace {

BenchCase Case(int64_t m, KernelChoice kernel) {
  BenchCase one;
  one.format = "kbit4";
  one.shape = {8192, 28672};
  one.m = m;
  one.kernel = kernel;
  return one;
}

// A layer of that shape, without its memory.
CudaWeights Layer(bool dense) {
  CudaWeightsParts parts;
  parts.traits.dense = dense;
  parts.traits.bits = dense ? 0 : 4;
  return CudaWeights(28672, 8192, std::move(parts));
}

int64_t RowsOf(const GemmScheme& scheme) {
  int64_t rows = 0;
  for (const Piece& piece : scheme.pieces) {
    EXPECT_EQ(piece.row, rows);
    rows += piece.rows;
  }
  return rows;
}

TEST(GemmSchemeTest, FewRowsAreOneSmallLaunch) {
  const auto scheme =
      GpuGemm::SchemeOf(Case(64, KernelChoice::kAuto), Layer(false));
  EXPECT_EQ(scheme.family, Family::kSmall);
  EXPECT_EQ(scheme.pieces.size(), 1u);
  EXPECT_EQ(RowsOf(scheme), 64);
  EXPECT_FALSE(scheme.prepares);
}

TEST(GemmSchemeTest, ManyRowsAreOneLargeLaunch) {
  const auto scheme =
      GpuGemm::SchemeOf(Case(4096, KernelChoice::kAuto), Layer(false));
  EXPECT_EQ(scheme.family, Family::kLarge);
  EXPECT_EQ(scheme.pieces.size(), 1u);
}

TEST(GemmSchemeTest, AForcedSmallFamilyTakesFullLaunches) {
  const auto scheme =
      GpuGemm::SchemeOf(Case(600, KernelChoice::kSmall), Layer(false));
  EXPECT_EQ(scheme.family, Family::kSmall);
  EXPECT_EQ(scheme.pieces.size(), 3u);
  EXPECT_EQ(RowsOf(scheme), 600);
}

TEST(GemmSchemeTest, AForcedLargeFamilyTakesASingleRow) {
  const auto scheme =
      GpuGemm::SchemeOf(Case(1, KernelChoice::kLarge), Layer(false));
  EXPECT_EQ(scheme.family, Family::kLarge);
  EXPECT_EQ(scheme.padded_rows(), 64);
}

TEST(GemmSchemeTest, DenseLayersHaveTheLargeFamilyAlone) {
  const auto scheme =
      GpuGemm::SchemeOf(Case(1, KernelChoice::kAuto), Layer(true));
  EXPECT_EQ(scheme.family, Family::kLarge);
  ASSERT_EQ(scheme.pieces.size(), 1u);
  // Summed as small launches are.
  EXPECT_EQ(scheme.pieces[0].family, Family::kSmall);
}

TEST(GemmSchemeTest, SinglesAreRoundedAndCutToTheBackendsWaves) {
  BenchCase singles = Case(4096, KernelChoice::kLarge);
  singles.dtype = FloatType::kFloat32;
  const auto scheme = GpuGemm::SchemeOf(singles, Layer(false));
  EXPECT_TRUE(scheme.prepares);
  EXPECT_EQ(scheme.operand_type, FloatType::kBFloat16);
  EXPECT_EQ(scheme.pieces.size(), 2u);
  EXPECT_EQ(RowsOf(scheme), 4096);
}

}  // namespace
}  // namespace qgemm::cuda
