// SPDX-License-Identifier: Apache-2.0
//
// Mode A8 to the bit: dots are summed in integers, and those scaled and added
// in fp32, as scalar code does it in the order of the layer's tile config, by
// the kernel for few rows and by that for many.

#include "kernels/cuda/launch/w4a8_gemm.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <vector>

#include "base/check.h"
#include "gtest/gtest.h"
#include "kernels/cuda/layout/q8_layout.h"
#include "kernels/cuda/plan/w4a8_plan.h"
#include "kernels/cuda/plan/w4a8_prefill_plan.h"
#include "kernels/matrix/types.h"
#include "tests/kernels/cuda/decode_shapes.h"
#include "tests/kernels/cuda/device_layer.h"
#include "tests/kernels/cuda/w4a8_test.h"
#include "tests/support/random_matrix.h"

namespace qgemm::cuda {
namespace {

constexpr int64_t kRows[] = {1,  7,  8,  9,   16,  17,  31,  32,  33,
                             63, 64, 65, 100, 128, 129, 255, 512, 1024};
constexpr int64_t kMaxM = 1024;
static_assert(kMaxM == kMaxW4A8M, "rows of a launch, at most");
// Rows of A whose results are compared, of those that there are.
constexpr int64_t kComparedRows[] = {
    0,  1,  6,  7,  8,   15,  16,  24,  31,  32,  40,  47,  62,
    63, 64, 77, 99, 113, 127, 128, 200, 254, 300, 511, 777, 1023};

// Results of one row of A, as the kernel's order has them.
class ScalarGemm {
 public:
  ScalarGemm(const CanonicalWeights& weights, const CudaWeights& resident)
      : weights_(weights), layout_(resident.tiled().layout) {}

  float Result(const Q8* a, int64_t n) const {
    const TileConfig& config = layout_.tile_config;
    float sum = PartSum(a, n, 0);
    for (int rank = 1; rank < config.split_k; ++rank) {
      sum = sum + PartSum(a, n, rank);
    }
    sum *= weights_.tensor_scale() / 16;
    if (layout_.scale_kind == ScaleKind::kRow) sum *= ScaleOf(n, 0);
    const auto& bias = weights_.header().bias;
    return bias.empty() ? sum : sum + bias[n];
  }

 private:
  float ScaleOf(int64_t n, int64_t block) const {
    return LoadFloat(FloatType::kFloat16,
                     &weights_.scales()[(n * groups() + block) * 2]);
  }
  int64_t groups() const { return weights_.header().groups_per_row(); }

  float PartSum(const Q8* a, int64_t n, int rank) const {
    const TileConfig& config = layout_.tile_config;
    const int64_t begin = rank * layout_.k_tiles / config.split_k;
    const int64_t end = (rank + 1) * layout_.k_tiles / config.split_k;
    float sums[4] = {};
    for (int turn = 0; turn < config.k_warps; ++turn) {
      float chain = 0;
      int stages = 0;
      bool ended = false;
      for (int64_t tile = begin + turn; tile < end; tile += config.k_warps) {
        if (stages++ == kW4A8ChainStages) {
          sums[turn] = ended ? sums[turn] + chain : chain;
          ended = true;
          chain = 0;
          stages = 1;
        }
        chain = AddTile(a, n, tile, chain);
      }
      sums[turn] = ended ? sums[turn] + chain : chain;
    }
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }

  float AddTile(const Q8* a, int64_t n, int64_t tile, float sum) const {
    const int64_t k = weights_.header().k;
    for (int64_t block = tile * 4; block < tile * 4 + 4; ++block) {
      if (block * kQ8Block >= k) break;
      const uint8_t* const codes = &weights_.codes()[n * k + block * kQ8Block];
      int dot = 0;
      for (int i = 0; i < kQ8Block; ++i) {
        dot += 16 * (codes[i] - 8) * a[block].q8[i];
      }
      const float d4 =
          layout_.scale_kind == ScaleKind::kRow ? 1 : ScaleOf(n, block);
      const float scaled = static_cast<float>(dot) * d4;
      sum = std::fmaf(scaled, a[block].d8, sum);
    }
    return sum;
  }

  const CanonicalWeights& weights_;
  const TileLayout& layout_;
};

class W4A8GemmTest : public W4A8Test {
 protected:
  // Multiplies a random layer as it is laid out for `device_` by each kernel
  // that there is, and compares.
  void ExpectTheBitsOfScalarCode(const LayerSize& size, FloatType type,
                                 int64_t most_rows = kMaxM) {
    WeightsRecipe recipe = WeightsRecipeNamed("q4_0");
    recipe.has_bias = RandomInt(0, 1, &random_) == 1;
    const CanonicalWeights weights =
        RandomWeights(recipe, size.n, size.k, &random_);
    const auto resident = Load(weights, device_.traits);
    const std::vector<uint8_t> a =
        RandomMatrix(type, most_rows, size.k, &random_);
    const std::vector<Q8> blocks = QuantizeOnHost(type, a);
    const DeviceBuffer device_a = Upload(a);
    const ScalarGemm scalar(weights, *resident);
    const int64_t first = RandomInt(0, 6, &random_) % size.n;
    std::map<int64_t, std::vector<float>> expected;  // by row
    for (const int64_t row : kComparedRows) {
      if (row >= most_rows) break;
      for (int64_t n = first; n < size.n; n += 7) {
        expected[row].push_back(
            scalar.Result(&blocks[row * (size.k / kQ8Block)], n));
      }
    }
    for (const int kernel : KernelsFor(*resident)) {
      for (const int64_t m : kRows) {
        if (m > most_rows) break;
        const std::vector<float> c =
            Multiply(*resident, device_a, type, m, kernel);
        for (const auto& [row, results] : expected) {
          if (row >= m) break;
          for (size_t i = 0; i < results.size(); ++i) {
            const int64_t n = first + 7 * static_cast<int64_t>(i);
            ASSERT_EQ(c[row * size.n + n], results[i])
                << "kernel " << kernel << ", row " << row << " of " << m
                << ", column " << n << ", n k = " << size.n << " " << size.k;
          }
        }
      }
    }
  }

  // Those that multiply the layer, as LaunchW4A8Gemm takes them.
  std::vector<int> KernelsFor(const CudaWeights& resident) const {
    std::vector<int> kernels = {kFewRowsW4A8Kernel, kBestW4A8Kernel};
    for (const int tile_m : kW4A8PrefillTileMs) {
      if (OffersW4A8Prefill(resident.tiled().layout, device_.traits, tile_m)) {
        kernels.push_back(tile_m);
      }
    }
    return kernels;
  }

  std::vector<float> Multiply(const CudaWeights& resident,
                              const DeviceBuffer& a, FloatType type, int64_t m,
                              int kernel) const {
    const DeviceBuffer q8 = Allocate(RoomOf(m, resident.k()));
    CHECK_EQ(cudaMemset(q8.data(), 0xff, q8.size_bytes()), cudaSuccess);
    const DeviceBuffer handed = Allocate(kHandedBytes);
    CHECK_EQ(cudaMemset(handed.data(), 0xff, handed.size_bytes()), cudaSuccess);
    const DeviceBuffer c = Allocate(m * resident.n() * 4);
    CHECK_EQ(cudaMemset(c.data(), 0xff, c.size_bytes()), cudaSuccess);
    W4A8Operands operands;
    operands.weights = resident.tiled();
    operands.a = a.data();
    operands.a_type = type;
    operands.quantized = q8.data();
    operands.c = c.data();
    operands.c_type = FloatType::kFloat32;
    operands.m = m;
    operands.handed = handed.data();
    CHECK_EQ(LaunchW4A8Gemm(device_, operands, nullptr, kernel), cudaSuccess);
    const std::vector<uint8_t> bytes = Download(c);
    std::vector<float> results(m * resident.n());
    std::memcpy(results.data(), bytes.data(), bytes.size());
    return results;
  }
};

TEST_F(W4A8GemmTest, HasTheBitsOfScalarCodeInEveryTileConfig) {
  for (const int split_k : {1, 2, 4, 8}) {
    for (const int n_tiles : {1, 2, 4, 8, 12, 16}) {
      const auto size = ShapeWith(split_k, n_tiles, device_.traits);
      if (!size.has_value()) continue;
      ExpectTheBitsOfScalarCode(*size, RandomElement(kTypes, &random_),
                                /*most_rows=*/255);
    }
  }
}

TEST_F(W4A8GemmTest, HasTheBitsOfScalarCodeWhereTilesAreNotFull) {
  for (const int64_t k : {32, 64, 96, 160, 1056}) {
    for (const int64_t n : {RandomInt(1, 70, &random_), int64_t{128},
                            RandomInt(129, 300, &random_)}) {
      ExpectTheBitsOfScalarCode({n, k}, RandomElement(kTypes, &random_));
    }
  }
}

// More tiles of C than SMs, in several waves.
TEST_F(W4A8GemmTest, HasTheBitsOfScalarCodeInSeveralWaves) {
  ExpectTheBitsOfScalarCode({16500, 288}, RandomElement(kTypes, &random_));
}

// 1.7 tiles of C a block, where there are 132 SMs: sums are handed over.
TEST_F(W4A8GemmTest, HasTheBitsOfScalarCodeWhereBlocksShareTiles) {
  ExpectTheBitsOfScalarCode({28672, 1056}, RandomElement(kTypes, &random_),
                            /*most_rows=*/129);
}

TEST_F(W4A8GemmTest, KeepsWhatIsNotFiniteToItsRow) {
  constexpr int64_t kM = 129;
  constexpr int64_t kN = 200;
  constexpr int64_t kK = 512;
  const CanonicalWeights weights =
      RandomWeights(WeightsRecipeNamed("q4_0"), kN, kK, &random_);
  const auto resident = Load(weights, device_.traits);
  std::vector<uint8_t> a = RandomMatrix(FloatType::kFloat32, kM, kK, &random_);
  const DeviceBuffer clean = Upload(a);
  // In the first block of a row, the last one of another, and a row's zeros.
  StoreFloat(FloatType::kFloat32, std::numeric_limits<float>::infinity(),
             &a[3 * kK * 4]);
  StoreFloat(FloatType::kFloat32, std::numeric_limits<float>::quiet_NaN(),
             &a[(101 * kK - 1) * 4]);
  std::fill_n(a.begin() + 64 * kK * 4, kK * 4, uint8_t{0});
  const DeviceBuffer struck = Upload(a);
  for (const int kernel : KernelsFor(*resident)) {
    const std::vector<float> expected =
        Multiply(*resident, clean, FloatType::kFloat32, kM, kernel);
    const std::vector<float> c =
        Multiply(*resident, struck, FloatType::kFloat32, kM, kernel);
    for (int64_t row = 0; row < kM; ++row) {
      for (int64_t n = 0; n < kN; ++n) {
        const float result = c[row * kN + n];
        if (row == 3 || row == 100) {
          ASSERT_TRUE(std::isnan(result)) << kernel << " " << row << " " << n;
        } else if (row != 64) {
          ASSERT_EQ(result, expected[row * kN + n])
              << kernel << " " << row << " " << n;
        }
      }
    }
  }
}

// Laid out for a chip without clusters, a warp has more than one chain.
TEST_F(W4A8GemmTest, AddsChainsOfAVeryLongKUp) {
  constexpr int64_t kLong = 1100 * kTileColumns;
  device_.traits.compute_capability = 80;
  device_.traits.sm_count = 108;
  device_.traits.shared_bytes_per_block = 163 << 10;
  ExpectTheBitsOfScalarCode({16, kLong}, FloatType::kFloat16, 9);
  ExpectTheBitsOfScalarCode({1000, 1536}, FloatType::kFloat16);
}

TEST_F(W4A8GemmTest, RefusesLayersThatItDoesNotMultiply) {
  for (const WeightsRecipe& recipe : QuantizedRecipes()) {
    const auto resident =
        Load(RandomWeights(recipe, 16, 256, &random_), device_.traits);
    const DeviceBuffer a = Allocate(Q8LayoutOf(1, 256).total_bytes());
    const DeviceBuffer c = Allocate(64);
    W4A8Operands operands;
    operands.weights = resident->tiled();
    operands.a = a.data();
    operands.quantized = a.data();
    operands.c = c.data();
    operands.c_type = FloatType::kFloat32;
    operands.m = kMaxW4A8M + 1;
    for (const int kernel : {kBestW4A8Kernel, kFewRowsW4A8Kernel, 64, 128}) {
      EXPECT_EQ(LaunchW4A8Gemm(device_, operands, nullptr, kernel),
                cudaErrorInvalidValue);
    }
    operands.m = 1;
    EXPECT_EQ(LaunchW4A8Gemm(device_, operands, nullptr, /*kernel=*/96),
              cudaErrorInvalidValue);
    if (OffersW4A8(resident->tiled().layout)) continue;
    for (const int kernel : {kBestW4A8Kernel, kFewRowsW4A8Kernel, 64, 128}) {
      EXPECT_EQ(LaunchW4A8Gemm(device_, operands, nullptr, kernel),
                cudaErrorInvalidValue)
          << recipe.name;
    }
  }
}

}  // namespace
}  // namespace qgemm::cuda
