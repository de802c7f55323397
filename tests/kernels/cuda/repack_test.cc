// SPDX-License-Identifier: Apache-2.0
//
// A layer on the GPU as a builder makes it: every code, scale and zero comes
// back, and dequantized weights are the exact ones, rounded.

#include "kernels/cuda/launch/repack.h"

#include <cuda_runtime_api.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/checked_math.h"
#include "gtest/gtest.h"
#include "kernels/cuda/cuda_weights.h"
#include "kernels/cuda/cuda_weights_builder.h"
#include "kernels/cuda/launch/dequantize.h"
#include "kernels/cuda/layout/tile_address.h"
#include "kernels/cuda/runtime/buffers.h"
#include "kernels/matrix/canonical_weights.h"
#include "tests/kernels/cuda/device_test.h"
#include "tests/support/panel_writer.h"
#include "tests/support/random_weights.h"
#include "tests/support/seeds.h"

namespace qgemm::cuda {
namespace {

// Behind what is dequantized: nothing may be written there.
constexpr int64_t kGuardBytes = 256;
constexpr uint8_t kPoison = 0xff;

// `count` bytes of device memory, after all that was enqueued.
std::vector<uint8_t> ReadBack(const void* device, int64_t count) {
  std::vector<uint8_t> bytes(count);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(bytes.data(), device, count, cudaMemcpyDeviceToHost),
            cudaSuccess);
  return bytes;
}

class RepackTest : public DeviceTest,
                   public testing::WithParamInterface<WeightsRecipe> {
 protected:
  static std::shared_ptr<ByteBudget> NewBudget(int64_t max_bytes) {
    ByteBudgetOptions options;
    options.name = "weights of a test";
    options.limit_bytes = max_bytes;
    return std::make_shared<ByteBudget>(std::move(options));
  }

  std::unique_ptr<CudaWeightsBuilder> NewBuilder() {
    CudaWeightsBudget budget;
    budget.device = device_.traits;
    budget.limits.max_n = 1 << 20;
    budget.limits.max_k = 1 << 20;
    budget.weights = budget_;
    return std::make_unique<CudaWeightsBuilder>(budget);
  }

  std::shared_ptr<const CudaWeights> Build(const CanonicalWeights& weights) {
    const auto builder = NewBuilder();
    EXPECT_EQ(WriteInRandomPanels(weights, &random_, builder.get()),
              absl::OkStatus());
    auto built = builder->Finish();
    EXPECT_TRUE(built.ok()) << built.status();
    return std::dynamic_pointer_cast<const CudaWeights>(*built);
  }

  // Around the borders of tiles and row blocks, as far as the recipe allows.
  std::vector<std::pair<int64_t, int64_t>> Shapes() const {
    const int64_t multiple = GetParam().k_multiple;
    std::vector<std::pair<int64_t, int64_t>> shapes;
    for (const auto& [n, k] : {std::pair<int64_t, int64_t>{1, 1},
                               {15, 127},
                               {16, 128},
                               {17, 129},
                               {256, 384},
                               {259, 1000},
                               {4000, 520}}) {
      shapes.push_back({n, RoundUp(k, multiple)});
    }
    return shapes;
  }

  std::shared_ptr<ByteBudget> budget_ = NewBudget(int64_t{1} << 30);
  RandomGenerator random_{FreshSeed()};
};

class QuantizedRepackTest : public RepackTest {};
class DenseRepackTest : public RepackTest {};

// The codes, [n, k] row-major, one a byte, by the layout's own arithmetic.
std::vector<uint8_t> UnpackedCodes(const CudaWeights& weights) {
  const TileLayout& layout = weights.tiled().layout;
  const std::vector<uint8_t> memory =
      ReadBack(weights.tiled().memory, layout.total_bytes);
  std::vector<uint8_t> codes;
  for (int64_t row = 0; row < layout.n; ++row) {
    for (int64_t column = 0; column < layout.k; ++column) {
      const TileIndex tile = {row / kTileRows, column / kTileColumns};
      const CodePlace place =
          PlaceOfCode(static_cast<int>(row % kTileRows),
                      static_cast<int>(column % kTileColumns));
      uint32_t words[kMaxWordsPerHalf];
      for (int word = 0; word < BitsOf(layout.codes); ++word) {
        std::memcpy(&words[word],
                    &memory[CodesOffset(layout, tile) +
                            WordOffset(layout.codes, place.owner, word)],
                    sizeof(uint32_t));
      }
      codes.push_back(static_cast<uint8_t>(
          CodeIn(layout.codes, place.pair, place.element, words)));
    }
  }
  return codes;
}

TEST_P(QuantizedRepackTest, CodesComeBack) {
  for (const auto& [n, k] : Shapes()) {
    const CanonicalWeights weights = RandomWeights(GetParam(), n, k, &random_);
    const auto built = Build(weights);
    EXPECT_TRUE(UnpackedCodes(*built) == weights.codes()) << n << " x " << k;
  }
}

TEST_P(QuantizedRepackTest, PaddingIsZero) {
  const int64_t k = RoundUp(129, GetParam().k_multiple);
  const CanonicalWeights weights = RandomWeights(GetParam(), 17, k, &random_);
  const auto built = Build(weights);
  const TileLayout& layout = built->tiled().layout;
  const std::vector<uint8_t> memory =
      ReadBack(built->tiled().memory, layout.total_bytes);
  for (int64_t row = 0; row < layout.padded_n(); ++row) {
    for (int64_t column = 0; column < layout.padded_k(); ++column) {
      if (row < 17 && column < k) continue;
      const CodePlace place =
          PlaceOfCode(row % kTileRows, column % kTileColumns);
      uint32_t words[kMaxWordsPerHalf];
      const uint8_t* codes = &memory[CodesOffset(
          layout, {row / kTileRows, column / kTileColumns})];
      for (int word = 0; word < layout.bits; ++word) {
        std::memcpy(&words[word],
                    codes + WordOffset(layout.codes, place.owner, word), 4);
      }
      for (int index = 0; index < layout.bits; ++index) {
        const BitPlace bit =
            BitOfCode(layout.codes, place.pair, place.element, index);
        ASSERT_EQ(words[bit.word] >> bit.bit & 1, 0u);
      }
    }
  }
}

// Scales and zeros as the layer's memory holds them.
class GroupReader {
 public:
  explicit GroupReader(const CudaWeights& weights)
      : layout_(weights.tiled().layout),
        scale_type_(weights.shape().scale_type),
        memory_(ReadBack(weights.tiled().memory, layout_.total_bytes)) {}

  float Scale(int64_t row, int64_t column) const {
    if (layout_.scale_kind == ScaleKind::kRow) {
      return LoadFloat(FloatType::kFloat32,
                       &memory_[layout_.row_scales_offset + row * 4]);
    }
    return LoadScale(scale_type_,
                     &memory_[ScalesOffset(layout_, TileOf(row, column)) +
                              IndexOf(row, column) * SizeOf(scale_type_)]);
  }
  int Zero(int64_t row, int64_t column) const {
    return memory_[ZerosOffset(layout_, TileOf(row, column)) +
                   IndexOf(row, column)];
  }

 private:
  static TileIndex TileOf(int64_t row, int64_t column) {
    return {row / kTileRows, column / kTileColumns};
  }
  int64_t IndexOf(int64_t row, int64_t column) const {
    return GroupIndex(layout_.groups, static_cast<int>(row % kTileRows),
                      static_cast<int>(column % kTileColumns * layout_.groups /
                                       kTileColumns));
  }

  const TileLayout layout_;
  const ScaleType scale_type_;
  const std::vector<uint8_t> memory_;
};

TEST_P(QuantizedRepackTest, ScalesAndZerosAreThoseOfEveryColumn) {
  for (const auto& [n, k] : Shapes()) {
    const CanonicalWeights weights = RandomWeights(GetParam(), n, k, &random_);
    const WeightsHeader& header = weights.header();
    const auto built = Build(weights);
    const GroupReader reader(*built);
    const int64_t size = SizeOf(header.scale_type);
    for (int64_t row = 0; row < n; ++row) {
      for (int64_t column = 0; column < k; ++column) {
        const int64_t group =
            row * header.groups_per_row() + column / header.group_size;
        ASSERT_EQ(reader.Scale(row, column),
                  LoadScale(header.scale_type, &weights.scales()[group * size]))
            << n << " x " << k << ", " << row << ", " << column;
        if (!header.has_zeros) continue;
        ASSERT_EQ(reader.Zero(row, column), weights.zeros()[group])
            << n << " x " << k << ", " << row << ", " << column;
      }
    }
  }
}

TEST_P(QuantizedRepackTest, VectorsOfTheHeaderComeBack) {
  const int64_t k = RoundUp(1000, GetParam().k_multiple);
  const CanonicalWeights weights = RandomWeights(GetParam(), 259, k, &random_);
  const WeightsHeader& header = weights.header();
  const auto built = Build(weights);
  const TiledWeights& tiled = built->tiled();
  EXPECT_EQ(tiled.has_bias, !header.bias.empty());
  EXPECT_EQ(tiled.has_permutation, !header.permutation.empty());
  if (tiled.has_bias) {
    const std::vector<uint8_t> bias = ReadBack(tiled.bias(), 259 * 4);
    const auto* expected = reinterpret_cast<const uint8_t*>(header.bias.data());
    EXPECT_TRUE(std::equal(bias.begin(), bias.end(), expected));
  }
  if (tiled.has_permutation) {
    const std::vector<uint8_t> order = ReadBack(tiled.permutation(), k * 4);
    EXPECT_EQ(std::memcmp(order.data(), header.permutation.data(), k * 4), 0);
  }
  const std::vector<uint8_t> codebook =
      ReadBack(tiled.codebook(), header.codebook.size() * 4);
  for (size_t i = 0; i < header.codebook.size(); ++i) {
    const float value = LoadFloat(FloatType::kFloat32, &codebook[i * 4]);
    EXPECT_LE(std::fabs(value), 1.0f);
    EXPECT_EQ(value * tiled.factor,
              header.codebook[i] * weights.tensor_scale());
  }
}

constexpr float kOutFactor = 0.25f;

struct RowRange {
  int64_t begin;
  int64_t count;
};

// [count, ldo], poisoned before.
std::vector<uint8_t> Dequantized(const CudaWeights& weights, FloatType type,
                                 const RowRange& rows, int64_t ldo) {
  DequantizeArgs args;
  args.weights = weights.tiled();
  args.row_begin = rows.begin;
  args.rows = rows.count;
  args.out_type = type;
  args.out_factor = kOutFactor;
  args.ldo = ldo;
  const int64_t bytes = rows.count * ldo * 2;
  const auto out = DeviceBuffer::Allocate(bytes + kGuardBytes);
  EXPECT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(cudaMemset(out->data(), kPoison, bytes + kGuardBytes), cudaSuccess);
  args.out = out->data();
  EXPECT_EQ(LaunchDequantize(args, nullptr), cudaSuccess);
  return ReadBack(out->data(), bytes + kGuardBytes);
}

// The first element that is not w * kOutFactor, rounded to fp32 and then to
// the type, or zero from column k on; or what stands behind the last.
std::string FirstDifference(const std::vector<uint8_t>& out,
                            const CanonicalWeights& weights, FloatType type,
                            const RowRange& rows, int64_t ldo) {
  for (int64_t i = 0; i < rows.count * ldo; ++i) {
    const int64_t row = rows.begin + i / ldo;
    const int64_t column = i % ldo;
    const bool is_weight = column < weights.header().k;
    const double exact = is_weight ? weights.Weight(row, column) : 0;
    const float expected =
        RoundTo(type, static_cast<float>(exact) * kOutFactor);
    const float actual = LoadFloat(type, &out[i * 2]);
    if (actual == expected) continue;
    return absl::StrCat(Name(type), ", ldo = ", ldo, ", row ", row, ", column ",
                        column, ": ", actual, ", not ", expected);
  }
  for (size_t i = out.size() - kGuardBytes; i < out.size(); ++i) {
    if (out[i] != kPoison) return absl::StrCat("byte ", i, " was written");
  }
  return "";
}

TEST_P(QuantizedRepackTest, DequantizedWeightsAreRounded) {
  for (const auto& [n, k] : Shapes()) {
    const CanonicalWeights weights = RandomWeights(GetParam(), n, k, &random_);
    const auto built = Build(weights);
    const int64_t first = RandomInt(0, n - 1, &random_);
    const RowRange rows = {first, RandomInt(1, n - first, &random_)};
    for (const FloatType type : {FloatType::kFloat16, FloatType::kBFloat16}) {
      for (const int64_t ldo : {RoundUp(k, 8), RoundUp(k, kTileColumns)}) {
        EXPECT_EQ(FirstDifference(Dequantized(*built, type, rows, ldo), weights,
                                  type, rows, ldo),
                  "")
            << n << " x " << k;
      }
    }
  }
}

// Every way in which a range may begin and end within tiles of 16 rows.
TEST_P(QuantizedRepackTest, AnyRowsAreDequantized) {
  const int64_t n = 35;
  const int64_t k = RoundUp(130, GetParam().k_multiple);
  const CanonicalWeights weights = RandomWeights(GetParam(), n, k, &random_);
  const auto built = Build(weights);
  const int64_t ldo = RoundUp(k, 8);
  for (int64_t begin = 0; begin < n; ++begin) {
    for (int64_t end = begin + 1; end <= n; ++end) {
      const RowRange rows = {begin, end - begin};
      const std::vector<uint8_t> out =
          Dequantized(*built, FloatType::kFloat16, rows, ldo);
      ASSERT_EQ(FirstDifference(out, weights, FloatType::kFloat16, rows, ldo),
                "");
    }
  }
}

TEST_P(QuantizedRepackTest, DequantizeRefusesWhatIsIllegal) {
  const int64_t k = RoundUp(100, GetParam().k_multiple);
  const auto built = Build(RandomWeights(GetParam(), 32, k, &random_));
  const auto out = DeviceBuffer::Allocate(32 * 512 * 2);
  ASSERT_TRUE(out.ok()) << out.status();
  DequantizeArgs legal;
  legal.weights = built->tiled();
  legal.rows = 32;
  legal.out = out->data();
  legal.ldo = RoundUp(k, 8);
  const auto code_with = [&](auto change) {
    DequantizeArgs args = legal;
    change(args);
    return LaunchDequantize(args, nullptr);
  };
  EXPECT_EQ(code_with([](DequantizeArgs&) {}), cudaSuccess);
  EXPECT_EQ(code_with([](DequantizeArgs& args) { args.rows = 0; }),
            cudaSuccess);
  const cudaError_t refused = cudaErrorInvalidValue;
  EXPECT_EQ(code_with([](DequantizeArgs& args) { args.rows = 33; }), refused);
  EXPECT_EQ(code_with([](DequantizeArgs& args) { args.row_begin = 1; }),
            refused);
  EXPECT_EQ(code_with([](DequantizeArgs& args) { args.row_begin = -1; }),
            refused);
  EXPECT_EQ(code_with([](DequantizeArgs& args) { args.ldo += 4; }), refused);
  EXPECT_EQ(code_with([](DequantizeArgs& args) { args.ldo = 1024; }), refused);
  EXPECT_EQ(code_with([](DequantizeArgs& args) {
              args.out_type = FloatType::kFloat32;
            }),
            refused);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

// One column at a time, from the last to the first.
TEST_P(QuantizedRepackTest, SingleColumnsMakeTheSameLayer) {
  const int64_t n = 130;
  const int64_t k = RoundUp(300, GetParam().k_multiple);
  const CanonicalWeights weights = RandomWeights(GetParam(), n, k, &random_);
  const int64_t groups = weights.header().groups_per_row();
  const auto builder = NewBuilder();
  ASSERT_EQ(builder->Begin(weights.header()), absl::OkStatus());
  std::vector<uint8_t> column(n);
  for (int64_t j = k - 1; j >= 0; --j) {
    for (int64_t i = 0; i < n; ++i) column[i] = weights.codes()[i * k + j];
    ASSERT_EQ(builder->WriteCodes({0, n, j, 1, column}), absl::OkStatus());
  }
  ASSERT_EQ(builder->WriteScales({0, n, 0, groups, weights.scales()}),
            absl::OkStatus());
  const auto built = builder->Finish();
  ASSERT_TRUE(built.ok()) << built.status();
  EXPECT_TRUE(UnpackedCodes(dynamic_cast<const CudaWeights&>(**built)) ==
              weights.codes());
}

TEST_P(QuantizedRepackTest, HoldsWhatWasEstimatedAndGivesItBack) {
  const int64_t k = RoundUp(1000, GetParam().k_multiple);
  const CanonicalWeights weights = RandomWeights(GetParam(), 259, k, &random_);
  auto built = Build(weights);
  EXPECT_EQ(built->resident_bytes(),
            EstimateResidentBytes(weights.header(), device_.traits));
  EXPECT_EQ(budget_->used_bytes(), built->resident_bytes());
  built.reset();
  EXPECT_EQ(budget_->used_bytes(), 0);
}

TEST_P(QuantizedRepackTest, RefusesALayerBeyondTheBudget) {
  const CanonicalWeights weights =
      RandomWeights(GetParam(), 256, 384, &random_);
  const int64_t bytes = EstimateResidentBytes(weights.header(), device_.traits);
  budget_ = NewBudget(bytes - 1);
  EXPECT_EQ(NewBuilder()->Begin(weights.header()).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(budget_->used_bytes(), 0);
  budget_ = NewBudget(bytes);
  EXPECT_EQ(NewBuilder()->Begin(weights.header()), absl::OkStatus());
  EXPECT_EQ(budget_->used_bytes(), 0);
}

TEST_P(DenseRepackTest, ElementsAndBiasComeBack) {
  for (const auto& [n, k] : Shapes()) {
    const CanonicalWeights weights = RandomWeights(GetParam(), n, k, &random_);
    const auto built = Build(weights);
    const DenseWeights& dense = built->dense();
    EXPECT_EQ(built->resident_bytes(),
              EstimateResidentBytes(weights.header(), device_.traits));
    EXPECT_TRUE(ReadBack(dense.memory, n * k * 2) == weights.dense())
        << n << " x " << k;
    const std::vector<float>& bias = weights.header().bias;
    ASSERT_EQ(dense.bias() == nullptr, bias.empty());
    if (bias.empty()) continue;
    const std::vector<uint8_t> bytes = ReadBack(dense.bias(), n * 4);
    EXPECT_EQ(std::memcmp(bytes.data(), bias.data(), n * 4), 0);
  }
}

// A layer of several slots, in one panel.
TEST_P(QuantizedRepackTest, PanelLargerThanASlotIsCut) {
  const int64_t n = 2500;
  const int64_t k = 5120;
  const CanonicalWeights weights = RandomWeights(GetParam(), n, k, &random_);
  const auto builder = NewBuilder();
  ASSERT_EQ(WriteWhole(weights, builder.get()), absl::OkStatus());
  const auto built = builder->Finish();
  ASSERT_TRUE(built.ok()) << built.status();
  EXPECT_TRUE(UnpackedCodes(dynamic_cast<const CudaWeights&>(**built)) ==
              weights.codes());
}

std::vector<WeightsRecipe> RecipesOf(WeightsHeader::Kind kind) {
  std::vector<WeightsRecipe> recipes;
  for (const WeightsRecipe& recipe : AllWeightsRecipes()) {
    if (recipe.header.kind == kind) recipes.push_back(recipe);
  }
  return recipes;
}

std::string NameOf(const testing::TestParamInfo<WeightsRecipe>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(
    Recipes, QuantizedRepackTest,
    testing::ValuesIn(RecipesOf(WeightsHeader::Kind::kQuantized)), NameOf);
INSTANTIATE_TEST_SUITE_P(
    Recipes, DenseRepackTest,
    testing::ValuesIn(RecipesOf(WeightsHeader::Kind::kDense)), NameOf);

}  // namespace
}  // namespace qgemm::cuda
