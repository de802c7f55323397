// SPDX-License-Identifier: Apache-2.0
//
// Properties of every tile config, over the shapes of real layers.

#include "kernels/cuda/plan/tile_plan.h"

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

class TileConfigTest : public ::testing::TestWithParam<LayerShape> {
 protected:
  const DeviceTraits h100_ = {};
  const TileConfig config_ =
      ChooseTileConfig({GetParam().n, GetParam().k}, h100_);
};

TEST_P(TileConfigTest, CoversEveryRowWithoutAnEmptyBlock) {
  const int64_t block_rows = int64_t{config_.n_tiles} * kTileRows;
  EXPECT_GE(config_.n_blocks * block_rows, GetParam().n);
  EXPECT_LT((config_.n_blocks - 1) * block_rows, GetParam().n);
}

TEST_P(TileConfigTest, PadsLittle) {
  const int64_t tiles = (GetParam().n + kTileRows - 1) / kTileRows;
  EXPECT_LE(config_.n_blocks * config_.n_tiles, tiles * 1.04);
}

TEST_P(TileConfigTest, StaysWithinTheKernels) {
  EXPECT_GE(config_.n_tiles, 1);
  EXPECT_LE(config_.n_tiles, kMaxNTiles);
  EXPECT_THAT(config_.split_k, AnyOfArray(kSplits));
  EXPECT_GE(config_.k_warps, 1);
  EXPECT_LE(config_.k_warps, 4);
}

TEST_P(TileConfigTest, GivesEachSplitColumns) {
  const int64_t k_tiles = (GetParam().k + kTileColumns - 1) / kTileColumns;
  EXPECT_GE(k_tiles, config_.split_k);
}

TEST_P(TileConfigTest, IsTheSameEachTime) {
  EXPECT_EQ(config_, ChooseTileConfig({GetParam().n, GetParam().k}, h100_));
}

TEST_P(TileConfigTest, HasNoSplitsWithoutClusters) {
  DeviceTraits ampere;
  ampere.compute_capability = 80;
  ampere.sm_count = 108;
  const TileConfig config =
      ChooseTileConfig({GetParam().n, GetParam().k}, ampere);
  EXPECT_EQ(config.split_k, 1);
  EXPECT_GE(config.n_blocks * config.n_tiles * kTileRows, GetParam().n);
}

TEST_P(TileConfigTest, KeepsToFewRowTiles) {
  const TileConfigProblem layer = {GetParam().n, GetParam().k, 5};
  const TileConfig config = ChooseTileConfig(layer, h100_);
  EXPECT_LE(config.n_tiles, 5);
  EXPECT_GE(config.n_blocks * config.n_tiles * kTileRows, GetParam().n);
}

std::string NameOf(const ::testing::TestParamInfo<LayerShape>& info) {
  return std::to_string(info.param.n) + "x" + std::to_string(info.param.k);
}

INSTANTIATE_TEST_SUITE_P(Layers, TileConfigTest, ::testing::ValuesIn(kLayers),
                         NameOf);

// Layers of keys and values, N x K, by models whose queries leave them room.
class KeysAndValuesTest : public ::testing::TestWithParam<LayerShape> {};

TEST_P(KeysAndValuesTest, AllRunAtOnceBesideQueries) {
  const DeviceTraits h100;
  const int64_t k = GetParam().k;
  const TileConfig queries = ChooseTileConfig({k, k}, h100);
  const TileConfig own = ChooseTileConfig({GetParam().n, k}, h100);
  EXPECT_LE(queries.n_blocks * queries.split_k + 2 * own.n_blocks * own.split_k,
            h100.sm_count);
  EXPECT_LE(own.split_k, 2);
}

INSTANTIATE_TEST_SUITE_P(Layers, KeysAndValuesTest,
                         ::testing::Values(LayerShape{1024, 4096},
                                           LayerShape{512, 3584},
                                           LayerShape{512, 2048},
                                           LayerShape{1024, 5120}),
                         NameOf);

TEST(LargeQueriesTest, BoundNoKeysAndValues) {
  const TileConfig config = ChooseTileConfig({1024, 8192}, DeviceTraits());
  EXPECT_GT(config.n_blocks * config.split_k, 32);
}

// The tile config of the layer that measured best on an H100, over M = 1, 16
// and 64 (bench/NOTES.md), or one within 2 % of it.
struct MeasuredLayer {
  LayerShape shape;
  int n_tiles;
  int split_k;
};

void PrintTo(const MeasuredLayer& layer, std::ostream* out) {
  PrintTo(layer.shape, out);
}

class MeasuredTileConfigTest : public ::testing::TestWithParam<MeasuredLayer> {
};

TEST_P(MeasuredTileConfigTest, IsChosen) {
  const MeasuredLayer& layer = GetParam();
  const TileConfig config =
      ChooseTileConfig({layer.shape.n, layer.shape.k}, DeviceTraits());
  EXPECT_EQ(config.n_tiles, layer.n_tiles);
  EXPECT_EQ(config.split_k, layer.split_k);
}

INSTANTIATE_TEST_SUITE_P(
    Layers, MeasuredTileConfigTest,
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
