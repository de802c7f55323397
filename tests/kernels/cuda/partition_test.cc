// SPDX-License-Identifier: Apache-2.0
//
// What every partition must be, over the shapes of real layers.

#include "kernels/cuda/tuning/partition.h"

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

// Blocks that share K, and so clusters: what the kernels are launched with.
constexpr int kSplits[] = {1, 2, 4, 8};

class PartitionTest : public ::testing::TestWithParam<LayerShape> {
 protected:
  const DeviceTraits h100_ = {};
  const Partition partition_ =
      ChoosePartition({GetParam().n, GetParam().k}, h100_);
};

TEST_P(PartitionTest, CoversEveryRowWithoutAnEmptyBlock) {
  const int64_t block_rows = int64_t{partition_.row_tiles} * kTileRows;
  EXPECT_GE(partition_.row_blocks * block_rows, GetParam().n);
  EXPECT_LT((partition_.row_blocks - 1) * block_rows, GetParam().n);
}

TEST_P(PartitionTest, PadsLittle) {
  const int64_t tiles = (GetParam().n + kTileRows - 1) / kTileRows;
  EXPECT_LE(partition_.row_blocks * partition_.row_tiles, tiles * 1.04);
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
  EXPECT_EQ(partition_, ChoosePartition({GetParam().n, GetParam().k}, h100_));
}

TEST_P(PartitionTest, HasNoSplitsWithoutClusters) {
  DeviceTraits ampere;
  ampere.compute_capability = 80;
  ampere.multiprocessors = 108;
  const Partition partition =
      ChoosePartition({GetParam().n, GetParam().k}, ampere);
  EXPECT_EQ(partition.splits, 1);
  EXPECT_GE(partition.row_blocks * partition.row_tiles * kTileRows,
            GetParam().n);
}

TEST_P(PartitionTest, KeepsToFewRowTiles) {
  const PartitionedLayer layer = {GetParam().n, GetParam().k, 5};
  const Partition partition = ChoosePartition(layer, h100_);
  EXPECT_LE(partition.row_tiles, 5);
  EXPECT_GE(partition.row_blocks * partition.row_tiles * kTileRows,
            GetParam().n);
}

std::string NameOf(const ::testing::TestParamInfo<LayerShape>& info) {
  return std::to_string(info.param.n) + "x" + std::to_string(info.param.k);
}

INSTANTIATE_TEST_SUITE_P(Layers, PartitionTest, ::testing::ValuesIn(kLayers),
                         NameOf);

// The partition of the layer that measured best on an H100, over M = 1, 16 and
// 64 (bench/NOTES.md), or one within 2 % of it.
struct MeasuredLayer {
  LayerShape shape;
  int row_tiles;
  int splits;
};

void PrintTo(const MeasuredLayer& layer, std::ostream* out) {
  PrintTo(layer.shape, out);
}

class MeasuredPartitionTest : public ::testing::TestWithParam<MeasuredLayer> {};

TEST_P(MeasuredPartitionTest, IsChosen) {
  const MeasuredLayer& layer = GetParam();
  const Partition partition =
      ChoosePartition({layer.shape.n, layer.shape.k}, DeviceTraits());
  EXPECT_EQ(partition.row_tiles, layer.row_tiles);
  EXPECT_EQ(partition.splits, layer.splits);
}

INSTANTIATE_TEST_SUITE_P(
    Layers, MeasuredPartitionTest,
    ::testing::Values(
        MeasuredLayer{{28672, 8192}, 16, 1}, MeasuredLayer{{8192, 28672}, 8, 2},
        MeasuredLayer{{10240, 8192}, 12, 2}, MeasuredLayer{{8192, 8192}, 8, 2},
        MeasuredLayer{{14336, 4096}, 8, 1}, MeasuredLayer{{4096, 14336}, 4, 2},
        MeasuredLayer{{11008, 4096}, 8, 1}, MeasuredLayer{{4096, 11008}, 4, 2},
        MeasuredLayer{{4096, 4096}, 4, 1}, MeasuredLayer{{13824, 5120}, 8, 1},
        MeasuredLayer{{18944, 3584}, 12, 1}, MeasuredLayer{{3584, 18944}, 8, 4},
        MeasuredLayer{{10240, 2048}, 8, 1}, MeasuredLayer{{1536, 2048}, 3, 2},
        MeasuredLayer{{4096, 1024}, 4, 1}, MeasuredLayer{{8192, 14336}, 8, 2}),
    [](const ::testing::TestParamInfo<MeasuredLayer>& info) {
      return std::to_string(info.param.shape.n) + "x" +
             std::to_string(info.param.shape.k);
    });

}  // namespace
}  // namespace qgemm::cuda
