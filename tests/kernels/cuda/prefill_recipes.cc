// SPDX-License-Identifier: Apache-2.0
//
// Sorts the quantized recipes, and varies some.

#include "tests/kernels/cuda/prefill_recipes.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/layout/tile_config.h"
#include "tests/kernels/cuda/device_layer.h"

namespace qgemm::cuda {
namespace {

// Scales that change within 128 columns are offered in E4M4 and fp16 alone.
bool IsOffered(const WeightsRecipe& recipe) {
  const WeightsHeader& header = recipe.header;
  return header.scale_type == ScaleType::kE4m4 ||
         header.scale_type == ScaleType::kFloat16 || header.group_size == 0 ||
         header.group_size >= kTileColumns;
}

WeightsRecipe WithScales(const std::string& name, ScaleType type) {
  WeightsRecipe recipe = WeightsRecipeNamed(name);
  recipe.name = absl::StrCat(name, "_scales_", Name(type));
  recipe.header.scale_type = type;
  return recipe;
}

WeightsRecipe WithRowScales(const std::string& name) {
  WeightsRecipe recipe = WithScales(name, ScaleType::kFloat32);
  recipe.header.group_size = 0;
  recipe.has_tensor_scale = false;
  recipe.k_multiple = 1;
  return recipe;
}

}  // namespace

std::vector<WeightsRecipe> PrefillRecipes() {
  std::vector<WeightsRecipe> recipes = {
      WithScales("int4_g128_bf16", ScaleType::kFloat16),
      WithScales("int4_g128_bf16", ScaleType::kFloat32),
      WithScales("int4_g128_zeros_fp16_bias", ScaleType::kBFloat16),
      WithScales("int4_g128_zeros_fp16_bias", ScaleType::kFloat32),
      WithRowScales("kbit3_wild"),
      WithRowScales("kbit5_wild_bias"),
  };
  for (WeightsRecipe& recipe : QuantizedRecipes()) {
    if (IsOffered(recipe)) recipes.push_back(std::move(recipe));
  }
  return recipes;
}

std::vector<WeightsRecipe> OtherRecipes() {
  std::vector<WeightsRecipe> recipes;
  for (WeightsRecipe& recipe : QuantizedRecipes()) {
    if (!IsOffered(recipe)) recipes.push_back(std::move(recipe));
  }
  return recipes;
}

}  // namespace qgemm::cuda
