// SPDX-License-Identifier: Apache-2.0

#include "loadtest/workload/model.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"

namespace qgemm::loadtest {
namespace {

constexpr int64_t kMaxLayers = 65536;

// num_hidden_layers, hidden_size, intermediate_size, num_key_value_heads times
// the size of a head, and vocab_size of a model's config.json.
// Sources: huggingface.co/meta-llama/Llama-2-7b-hf, meta-llama/Meta-Llama-3-8B,
// meta-llama/Meta-Llama-3-70B and Qwen/Qwen2.5-7B, config.json of each.
struct Model {
  absl::string_view name;
  ModelShape shape;
};
constexpr Model kModels[] = {
    {"llama2-7b", {32, 4096, 11008, 32 * 128, 32000}},
    {"llama3-8b", {32, 4096, 14336, 8 * 128, 128256}},
    {"llama3-70b", {80, 8192, 28672, 8 * 128, 128256}},
    {"qwen2.5-7b", {28, 3584, 18944, 4 * 128, 152064}},
};

std::vector<LayerShape> BlockOf(const ModelShape& model) {
  const int64_t hidden = model.hidden;
  return {{"q", hidden, hidden},
          {"k", hidden, model.key_value},
          {"v", hidden, model.key_value},
          {"o", hidden, hidden},
          {"gate", hidden, model.feed_forward},
          {"up", hidden, model.feed_forward},
          {"down", model.feed_forward, hidden}};
}

ModelShape CutOff(ModelShape model, int64_t max_blocks) {
  if (max_blocks > 0) model.blocks = std::min(model.blocks, max_blocks);
  return model;
}

std::vector<LayerShape> Repeat(const std::vector<LayerShape>& block,
                               int64_t blocks, int64_t max_blocks) {
  if (max_blocks > 0) blocks = std::min(blocks, max_blocks);
  std::vector<LayerShape> layers;
  for (int64_t i = 0; i < blocks; ++i) {
    for (const auto& [name, k, n] : block) {
      layers.push_back({absl::StrCat("block.", i, ".", name), k, n});
    }
  }
  return layers;
}

absl::Status BadFile(absl::string_view reason) {
  return absl::InvalidArgumentError(
      absl::StrCat("model: ", reason,
                   "; must be {\"blocks\": B, \"layers\": [{\"name\": "
                   "NAME, \"k\": K, \"n\": N}, ...]} with K and N from 1 to ",
                   kMaxExtent));
}

bool ParseNumber(absl::string_view text, int64_t highest, int64_t* number) {
  return absl::SimpleAtoi(text, number) && *number >= 1 && *number <= highest;
}

}  // namespace

absl::StatusOr<LayerShape> ParseShape(absl::string_view text,
                                      std::string name) {
  const std::pair<absl::string_view, absl::string_view> extents =
      absl::StrSplit(text, absl::MaxSplits('x', 1));
  LayerShape shape{std::move(name), 0, 0};
  if (ParseNumber(extents.first, kMaxExtent, &shape.k) &&
      ParseNumber(extents.second, kMaxExtent, &shape.n)) {
    return shape;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("a shape must be KxN, each 1 to ", kMaxExtent));
}

std::vector<std::string> KnownModels() {
  std::vector<std::string> names;
  for (const Model& model : kModels) names.emplace_back(model.name);
  return names;
}

absl::StatusOr<ModelShape> ModelShapeOf(absl::string_view model,
                                        int64_t max_blocks) {
  const auto* const found = absl::c_find_if(
      kModels, [&](const Model& each) { return each.name == model; });
  if (found == std::end(kModels)) return absl::NotFoundError(model);
  return CutOff(found->shape, max_blocks);
}

absl::StatusOr<ModelShape> ParseModelShape(absl::string_view text,
                                           int64_t max_blocks) {
  using Json = nlohmann::json;
  const Json json = Json::parse(text.begin(), text.end(), nullptr, false);
  ModelShape model;
  for (const auto& [name, number] : {std::make_pair("blocks", &model.blocks),
                                     {"hidden", &model.hidden},
                                     {"feed_forward", &model.feed_forward},
                                     {"key_value", &model.key_value},
                                     {"vocabulary", &model.vocabulary}}) {
    const Json value = json.is_object() ? json.value(name, Json()) : Json();
    if (!value.is_number_integer() || value < 1 || value > kMaxExtent) {
      return absl::InvalidArgumentError(absl::StrCat(
          "model: wrong ", name,
          "; must be {\"blocks\": B, \"hidden\": H, \"feed_forward\": F, "
          "\"key_value\": W, \"vocabulary\": V}, each from 1 to ",
          kMaxExtent));
    }
    *number = value.get<int64_t>();
  }
  return CutOff(model, max_blocks);
}

std::vector<LayerShape> LayersOf(const ModelShape& model) {
  return Repeat(BlockOf(model), model.blocks, /*max_blocks=*/0);
}

absl::StatusOr<std::vector<LayerShape>> ModelLayers(absl::string_view model,
                                                    int64_t max_blocks) {
  ASSIGN_OR_RETURN(const ModelShape shape, ModelShapeOf(model, max_blocks));
  return LayersOf(shape);
}

absl::StatusOr<std::vector<LayerShape>> ParseModelFile(absl::string_view text,
                                                       int64_t max_blocks) {
  using Json = nlohmann::json;
  const Json model = Json::parse(text.begin(), text.end(), nullptr, false);
  if (!model.is_object()) return BadFile("is no JSON object");
  const Json blocks = model.value("blocks", Json(1));
  if (!blocks.is_number_integer() || blocks < 1) return BadFile("wrong blocks");
  const Json listed = model.value("layers", Json::array());
  std::vector<LayerShape> block;
  for (const Json& layer : listed) {
    const auto extent = [&layer](const char* key) {
      const Json value = layer.is_object() ? layer.value(key, Json()) : Json();
      const bool fits =
          value.is_number_integer() && value >= 1 && value <= kMaxExtent;
      return fits ? value.get<int64_t>() : 0;
    };
    if (extent("k") == 0 || extent("n") == 0 || !layer.contains("name") ||
        !layer["name"].is_string()) {
      return BadFile(absl::StrCat("layer ", block.size(), " is wrong"));
    }
    block.push_back(
        {layer["name"].get<std::string>(), extent("k"), extent("n")});
  }
  const auto count = static_cast<int64_t>(block.size());
  if (count == 0 || blocks > kMaxLayers / count) {
    return BadFile(absl::StrCat("must have 1 to ", kMaxLayers, " layers"));
  }
  return Repeat(block, blocks.get<int64_t>(), max_blocks);
}

}  // namespace qgemm::loadtest
