// SPDX-License-Identifier: Apache-2.0
//
// What every partition must be, over the shapes of real layers.

#include "kernels/cuda/tuning/partition.h"

#include <algorithm>
#include <ostream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qgemm::cuda {
namespace {

using ::testing::AnyOfArray;

struct LayerShape {
  int64_t n;
  int64_t k;
};

void PrintTo(const LayerShape& shape, std::ostream* out) {
  *out << shape.n << "x" << shape.k;
}

// Layers of the Llama, Qwen and Mixtral models of 1 to 70 billion weights.
constexpr LayerShape kLayers[] = {
    {28672, 8192}, {8192, 28672},  {10240, 8192}, {8192, 8192},   {14336, 4096},
    {4096, 14336}, {11008, 4096},  {4096, 11008}, {4096, 4096},   {13824, 5120},
    {18944, 3584}, {3584, 18944},  {10240, 2048}, {1536, 2048},   {4096, 1024},
    {8192, 14336}, {1, 1},         {16, 128},     {17, 129},      {100, 100},
    {1, 1 << 20},  {1 << 20, 1},   {32000, 4096}, {128256, 8192}, {384, 1536},
    {2112, 128},   {2113, 131072},
};

// Layers that keep the memory busy for several microseconds on an H100: the
// start of a launch is small beside them.
constexpr LayerShape kLargeLayers[] = {
    {28672, 8192}, {8192, 28672}, {10240, 8192}, {8192, 8192},  {14336, 4096},
    {4096, 14336}, {13824, 5120}, {18944, 3584}, {3584, 18944}, {8192, 14336},
};

// Blocks that share K, and so clusters: what the kernels are launched with.
constexpr int kSplits[] = {1, 2, 4, 8};

// Clusters of the size that an H100 runs at once: the driver's occupancy
// query, which kernels/cuda/tuning/partition.cc cites.
int64_t ClustersOfH100(int size) {
  switch (size) {
    case 1:
      return 132;
    case 2:
      return 66;
    case 4:
      return 30;
    default:
      return 15;
  }
}

// The part of the multiprocessors' time that falls on rows of the layer, if
// each row tile takes as long as the other.
double BusyFraction(const LayerShape& shape, const Partition& partition) {
  const int64_t at_once = ClustersOfH100(partition.splits);
  const int64_t waves = (partition.row_blocks + at_once - 1) / at_once;
  const int64_t tiles = (shape.n + kTileRows - 1) / kTileRows;
  return static_cast<double>(tiles * partition.splits) /
         (static_cast<double>(waves) * partition.row_tiles * 132);
}

// The most that any legal partition reaches in one wave: some heights divide
// badly, and each further wave fills the blocks' pipelines anew.
double BestOneWaveFraction(const LayerShape& shape) {
  double best = 0;
  for (const int splits : kSplits) {
    for (int row_tiles = 1; row_tiles <= kMaxRowTiles; ++row_tiles) {
      Partition partition;
      partition.splits = splits;
      partition.row_tiles = row_tiles;
      const int64_t block_rows = int64_t{row_tiles} * kTileRows;
      partition.row_blocks = (shape.n + block_rows - 1) / block_rows;
      if (partition.row_blocks > ClustersOfH100(splits)) continue;
      best = std::max(best, BusyFraction(shape, partition));
    }
  }
  return best;
}

class PartitionTest : public ::testing::TestWithParam<LayerShape> {
 protected:
  const DeviceTraits h100_ = {};
  const Partition partition_ =
      ChoosePartition(GetParam().n, GetParam().k, h100_);
};

TEST_P(PartitionTest, CoversEveryRowWithoutAnEmptyBlock) {
  const int64_t block_rows = int64_t{partition_.row_tiles} * kTileRows;
  EXPECT_GE(partition_.row_blocks * block_rows, GetParam().n);
  EXPECT_LT((partition_.row_blocks - 1) * block_rows, GetParam().n);
}

TEST_P(PartitionTest, StaysWithinTheKernels) {
  EXPECT_GE(partition_.row_tiles, 1);
  EXPECT_LE(partition_.row_tiles, kMaxRowTiles);
  EXPECT_THAT(partition_.splits, AnyOfArray(kSplits));
  EXPECT_GE(partition_.column_warps, 1);
  EXPECT_LE(partition_.column_warps, 4);
}

TEST_P(PartitionTest, GivesEachSplitColumns) {
  const int64_t column_tiles = (GetParam().k + kTileColumns - 1) / kTileColumns;
  EXPECT_GE(column_tiles, partition_.splits);
}

TEST_P(PartitionTest, IsTheSameEachTime) {
  EXPECT_EQ(partition_, ChoosePartition(GetParam().n, GetParam().k, h100_));
}

TEST_P(PartitionTest, HasNoSplitsWithoutClusters) {
  DeviceTraits ampere;
  ampere.compute_capability = 80;
  ampere.multiprocessors = 108;
  const Partition partition =
      ChoosePartition(GetParam().n, GetParam().k, ampere);
  EXPECT_EQ(partition.splits, 1);
  EXPECT_GE(partition.row_blocks * partition.row_tiles * kTileRows,
            GetParam().n);
}

std::string NameOf(const ::testing::TestParamInfo<LayerShape>& info) {
  return std::to_string(info.param.n) + "x" + std::to_string(info.param.k);
}

INSTANTIATE_TEST_SUITE_P(Layers, PartitionTest, ::testing::ValuesIn(kLayers),
                         NameOf);

class LargePartitionTest : public PartitionTest {};

TEST_P(LargePartitionTest, KeepsNineTenthsBusyOrAsMuchAsOneWaveCan) {
  const double goal = std::min(0.9, BestOneWaveFraction(GetParam()));
  EXPECT_GE(BusyFraction(GetParam(), partition_), goal)
      << "row_tiles " << partition_.row_tiles << ", splits "
      << partition_.splits << ", row_blocks " << partition_.row_blocks;
}

INSTANTIATE_TEST_SUITE_P(Layers, LargePartitionTest,
                         ::testing::ValuesIn(kLargeLayers), NameOf);

}  // namespace
}  // namespace qgemm::cuda
