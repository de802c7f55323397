// SPDX-License-Identifier: Apache-2.0
//
// The recipes, and codes, scales and zeros drawn for them.

#include "tests/support/random_weights.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace qgemm {
namespace {

// 2^bits values, antisymmetric without a zero, the largest 1: what kbit's
// default codebooks look like.
std::vector<float> SymmetricCodebook(int bits) {
  const int half = 1 << (bits - 1);
  std::vector<float> codebook;
  for (int i = -half; i < half; ++i) {
    const float magnitude = (i < 0 ? -i - 0.5f : i + 0.5f) / (half - 0.5f);
    codebook.push_back(i < 0 ? -std::pow(magnitude, 1.25f)
                             : std::pow(magnitude, 1.25f));
  }
  return codebook;
}

// bitsandbytes' NormalFloat4.
std::vector<float> Nf4Codebook() {
  return {-1.0f,
          -0.6961928009986877f,
          -0.5250730514526367f,
          -0.39491748809814453f,
          -0.28444138169288635f,
          -0.18477343022823334f,
          -0.09105003625154495f,
          0.0f,
          0.07958029955625534f,
          0.16093020141124725f,
          0.24611230194568634f,
          0.33791524171829224f,
          0.44070982933044434f,
          0.5626170039176941f,
          0.7229568362236023f,
          1.0f};
}

// Neither sorted nor symmetric, and far from 1.
std::vector<float> WildCodebook(int bits) {
  std::vector<float> codebook;
  for (int i = 0; i < 1 << bits; ++i) {
    codebook.push_back(static_cast<float>((i * 37 + 11) % 29) * 7.3f - 61.0f);
  }
  return codebook;
}

std::vector<float> LinearCodebook(int first) {
  std::vector<float> codebook(16);
  std::iota(codebook.begin(), codebook.end(), static_cast<float>(first));
  return codebook;
}

WeightsRecipe Quantized(std::string name, std::vector<float> codebook,
                        int64_t group_size, ScaleType scale_type) {
  WeightsRecipe recipe;
  recipe.name = std::move(name);
  recipe.header.bits = static_cast<int>(std::log2(codebook.size()));
  recipe.header.codebook = std::move(codebook);
  recipe.header.group_size = group_size;
  recipe.header.scale_type = scale_type;
  return recipe;
}

WeightsRecipe Kbit(std::string name, std::vector<float> codebook) {
  WeightsRecipe recipe =
      Quantized(std::move(name), std::move(codebook), 32, ScaleType::kE4m4);
  recipe.has_tensor_scale = true;
  recipe.k_multiple = 32;
  return recipe;
}

WeightsRecipe Q4_0() {
  WeightsRecipe recipe =
      Quantized("q4_0", LinearCodebook(-8), 32, ScaleType::kFloat16);
  recipe.header.integer_codes = true;
  recipe.header.supports_a8 = true;
  recipe.k_multiple = 32;
  return recipe;
}

WeightsRecipe Ternary(std::string name) {
  WeightsRecipe recipe =
      Quantized(std::move(name), {-1, 0, 1, 0}, 0, ScaleType::kFloat32);
  recipe.header.integer_codes = true;
  return recipe;
}

enum class Zeros { kNone, kPerGroup };

WeightsRecipe Int4(int64_t group_size, Zeros zeros, ScaleType scale_type) {
  const bool has_zeros = zeros == Zeros::kPerGroup;
  const std::string group =
      group_size == 0 ? std::string("k") : absl::StrCat(group_size);
  WeightsRecipe recipe =
      Quantized(absl::StrCat("int4_g", group, has_zeros ? "_zeros_" : "_",
                             Name(scale_type)),
                LinearCodebook(has_zeros ? 0 : -8), group_size, scale_type);
  recipe.header.has_zeros = has_zeros;
  recipe.header.integer_codes = true;
  return recipe;
}

WeightsRecipe Dense(FloatType type) {
  WeightsRecipe recipe;
  recipe.name = absl::StrCat("dense_", Name(type));
  recipe.header.kind = WeightsHeader::Kind::kDense;
  recipe.header.dense_type = type;
  return recipe;
}

WeightsRecipe WithBias(WeightsRecipe recipe) {
  recipe.name += "_bias";
  recipe.has_bias = true;
  return recipe;
}

WeightsRecipe WithActOrder(WeightsRecipe recipe) {
  recipe.name += "_act_order";
  recipe.has_permutation = true;
  recipe.k_multiple = recipe.header.group_size;
  return recipe;
}

// Any E4M4 code now and then, zero and subnormals too; else 2^-5 to 2.
uint8_t RandomE4m4(RandomGenerator* random) {
  return RandomInt(0, 15, random) == 0 ? RandomInt(0, 255, random)
                                       : RandomInt(0x60, 0xc0, random);
}

std::vector<uint8_t> RandomScales(ScaleType type, int64_t count,
                                  RandomGenerator* random) {
  std::vector<uint8_t> scales(count * SizeOf(type));
  for (int64_t i = 0; i < count; ++i) {
    uint8_t* out = &scales[i * SizeOf(type)];
    const float scale = 0.1f * RandomSigned(random);
    switch (type) {
      case ScaleType::kE4m4:
        *out = RandomE4m4(random);
        break;
      case ScaleType::kFloat16:
        StoreFloat(FloatType::kFloat16, scale, out);
        break;
      case ScaleType::kBFloat16:
        StoreFloat(FloatType::kBFloat16, scale, out);
        break;
      case ScaleType::kFloat32:
        StoreFloat(FloatType::kFloat32, scale, out);
        break;
    }
  }
  return scales;
}

std::vector<uint8_t> RandomBytes(int64_t count, int64_t largest,
                                 RandomGenerator* random) {
  std::vector<uint8_t> bytes(count);
  for (uint8_t& byte : bytes) byte = RandomInt(0, largest, random);
  return bytes;
}

WeightsHeader HeaderOf(const WeightsRecipe& recipe, int64_t n, int64_t k,
                       RandomGenerator* random) {
  WeightsHeader header = recipe.header;
  header.n = n;
  header.k = k;
  if (header.group_size == 0) header.group_size = k;
  if (recipe.has_bias) {
    header.bias.resize(n);
    for (float& value : header.bias) value = RandomSigned(random);
  }
  if (recipe.has_permutation) {
    header.permutation.resize(k);
    std::iota(header.permutation.begin(), header.permutation.end(), 0);
    std::shuffle(header.permutation.begin(), header.permutation.end(), *random);
  }
  return header;
}

void WriteQuantized(const WeightsRecipe& recipe, RandomGenerator* random,
                    CanonicalWeights* weights) {
  const WeightsHeader& header = weights->header();
  // A ternary layer's fourth code stands for nothing.
  const int64_t largest_code =
      header.bits == 2 && header.integer_codes ? 2 : (1 << header.bits) - 1;
  const int64_t groups = header.groups_per_row();
  const std::vector<uint8_t> scales =
      RandomScales(header.scale_type, header.n * groups, random);
  CHECK_OK(weights->WriteScales({0, header.n, 0, groups, scales}));
  if (header.has_zeros) {
    const std::vector<uint8_t> zeros =
        RandomBytes(header.n * groups, 16, random);
    CHECK_OK(weights->WriteZeros({0, header.n, 0, groups, zeros}));
  }
  const std::vector<uint8_t> codes =
      RandomBytes(header.n * header.k, largest_code, random);
  CHECK_OK(weights->WriteCodes({0, header.n, 0, header.k, codes}));
  if (recipe.has_tensor_scale) {
    CHECK_OK(weights->SetTensorScale(
        std::ldexp(1.0f, static_cast<int>(RandomInt(-3, 3, random)))));
  }
}

void WriteDense(RandomGenerator* random, CanonicalWeights* weights) {
  const WeightsHeader& header = weights->header();
  const int64_t size = SizeOf(header.dense_type);
  std::vector<uint8_t> elements(header.n * header.k * size);
  for (int64_t i = 0; i < header.n * header.k; ++i) {
    StoreFloat(header.dense_type, RandomSigned(random), &elements[i * size]);
  }
  CHECK_OK(weights->WriteDense({0, header.n, elements}));
}

}  // namespace

std::vector<WeightsRecipe> AllWeightsRecipes() {
  return {
      Kbit("kbit2", SymmetricCodebook(2)),
      Kbit("kbit3", SymmetricCodebook(3)),
      Kbit("kbit4", SymmetricCodebook(4)),
      Kbit("kbit5", SymmetricCodebook(5)),
      Kbit("kbit4_nf4", Nf4Codebook()),
      Kbit("kbit3_wild", WildCodebook(3)),
      WithBias(Kbit("kbit5_wild", WildCodebook(5))),
      Q4_0(),
      Ternary("ternary"),
      WithBias(Ternary("ternary")),
      Int4(32, Zeros::kNone, ScaleType::kFloat16),
      Int4(32, Zeros::kPerGroup, ScaleType::kBFloat16),
      Int4(64, Zeros::kNone, ScaleType::kFloat32),
      Int4(64, Zeros::kPerGroup, ScaleType::kFloat16),
      Int4(128, Zeros::kNone, ScaleType::kBFloat16),
      WithBias(Int4(128, Zeros::kPerGroup, ScaleType::kFloat16)),
      Int4(0, Zeros::kNone, ScaleType::kFloat16),
      Int4(0, Zeros::kPerGroup, ScaleType::kFloat32),
      WithActOrder(Int4(32, Zeros::kPerGroup, ScaleType::kFloat16)),
      WithActOrder(Int4(128, Zeros::kPerGroup, ScaleType::kFloat16)),
      Dense(FloatType::kFloat16),
      Dense(FloatType::kBFloat16),
      WithBias(Dense(FloatType::kBFloat16)),
  };
}

WeightsRecipe WeightsRecipeNamed(const std::string& name) {
  for (const WeightsRecipe& recipe : AllWeightsRecipes()) {
    if (recipe.name == name) return recipe;
  }
  LOG(FATAL) << "no recipe " << name;
  return {};
}

CanonicalWeights RandomWeights(const WeightsRecipe& recipe, int64_t n,
                               int64_t k, RandomGenerator* random) {
  CHECK_EQ(k % recipe.k_multiple, 0);
  CanonicalWeights weights;
  CHECK_OK(weights.Begin(HeaderOf(recipe, n, k, random)));
  if (recipe.header.kind == WeightsHeader::Kind::kDense) {
    WriteDense(random, &weights);
  } else {
    WriteQuantized(recipe, random, &weights);
  }
  return weights;
}

}  // namespace qgemm
