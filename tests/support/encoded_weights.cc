// SPDX-License-Identifier: Apache-2.0
//
// Random fp32 weights through EncodeWeights, and back through the decoders.

#include "tests/support/encoded_weights.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "kernels/formats/weights_decoder.h"

namespace qgemm {
namespace {

// The sum of twelve uniform values, of variance 1/3 each: nearly normal.
float RandomNormal(RandomGenerator* random) {
  float sum = 0;
  for (int i = 0; i < 12; ++i) sum += RandomSigned(random);
  return 0.5f * sum;
}

EncodeRecipe Kbit(int bits) {
  EncodeRecipe recipe;
  recipe.name = absl::StrCat("kbit", bits);
  recipe.options.target = QuantizeTarget::kKbit;
  recipe.options.bits = bits;
  recipe.options.scale_type = ScaleType::kE4m4;
  recipe.k_multiple = 32;
  return recipe;
}

EncodeRecipe Q4_0() {
  EncodeRecipe recipe;
  recipe.name = "q4_0";
  recipe.options.target = QuantizeTarget::kQ4_0;
  recipe.k_multiple = 32;
  return recipe;
}

EncodeRecipe Ternary(TernaryCoding coding, std::string name) {
  EncodeRecipe recipe;
  recipe.name = std::move(name);
  recipe.options.target = QuantizeTarget::kTernary;
  recipe.options.ternary_coding = coding;
  return recipe;
}

EncodeRecipe Int4(int64_t group_size, ScaleType scale_type) {
  EncodeRecipe recipe;
  recipe.name = absl::StrCat("int4_g", group_size, "_", Name(scale_type));
  recipe.options.target = QuantizeTarget::kInt4;
  recipe.options.group_size = group_size;
  recipe.options.scale_type = scale_type;
  return recipe;
}

EncodeRecipe Asymmetric(EncodeRecipe recipe) {
  recipe.name += "_asymmetric";
  recipe.options.asymmetric = true;
  return recipe;
}

EncodeRecipe WithBias(EncodeRecipe recipe) {
  recipe.name += "_bias";
  recipe.has_bias = true;
  return recipe;
}

}  // namespace

std::vector<EncodeRecipe> AllEncodeRecipes() {
  return {
      Kbit(2),
      Kbit(3),
      Kbit(4),
      WithBias(Kbit(5)),
      Q4_0(),
      WithBias(Q4_0()),
      Ternary(TernaryCoding::kInt8, "ternary_int8"),
      Ternary(TernaryCoding::kPacked012, "ternary_packed012"),
      WithBias(Ternary(TernaryCoding::kPacked123, "ternary_packed123")),
      Int4(32, ScaleType::kFloat16),
      Int4(64, ScaleType::kFloat32),
      WithBias(Asymmetric(Int4(128, ScaleType::kFloat16))),
      Asymmetric(Int4(0, ScaleType::kBFloat16)),
  };
}

EncodeRecipe EncodeRecipeNamed(const std::string& name) {
  for (const EncodeRecipe& recipe : AllEncodeRecipes()) {
    if (recipe.name == name) return recipe;
  }
  LOG(FATAL) << "no recipe " << name;
  return {};
}

EncodedWeights RandomEncodedWeights(const EncodeRecipe& recipe, int64_t n,
                                    int64_t k, RandomGenerator* random) {
  CHECK_EQ(k % recipe.k_multiple, 0);
  std::vector<float> w(n * k);
  for (float& value : w) value = RandomNormal(random);
  std::vector<float> bias(recipe.has_bias ? n : 0);
  for (float& value : bias) value = RandomNormal(random);
  absl::StatusOr<EncodedWeights> encoded =
      EncodeWeights(w, n, k, bias, recipe.options);
  CHECK(encoded.ok()) << encoded.status();
  return *std::move(encoded);
}

absl::Status DecodeInto(const EncodedWeights& encoded, int64_t piece_bytes,
                        WeightsSink* sink) {
  const std::unique_ptr<WeightsDecoder> decoder =
      NewWeightsDecoder(encoded.spec, sink);
  for (const EncodedWeights::SectionBytes& section : encoded.sections) {
    const absl::Span<const uint8_t> bytes = section.bytes;
    for (size_t begin = 0; begin < bytes.size(); begin += piece_bytes) {
      RETURN_IF_ERROR(
          decoder->Append(section.section, bytes.subspan(begin, piece_bytes)));
    }
  }
  return decoder->Finish().status();
}

CanonicalWeights Decode(const EncodedWeights& encoded) {
  CanonicalWeights weights;
  CHECK_OK(DecodeInto(encoded, TotalBytes(encoded.spec), &weights));
  return weights;
}

}  // namespace qgemm
