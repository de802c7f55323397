// SPDX-License-Identifier: Apache-2.0
//
// A table of models, and the seven layers of a block.

#include "loadtest/workload/model_shapes.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"

namespace qgemm {
namespace {

// What a model's config.json calls hidden_size, intermediate_size,
// num_key_value_heads times the size of a head, and num_hidden_layers.
// Sources: huggingface.co/meta-llama/Llama-2-7b-hf, meta-llama/Meta-Llama-3-8B,
// meta-llama/Meta-Llama-3-70B and Qwen/Qwen2.5-7B, config.json of each.
struct Model {
  absl::string_view name;
  int64_t hidden;
  int64_t feed_forward;
  int64_t key_value;
  int64_t blocks;
};
constexpr Model kModels[] = {
    {"llama2-7b", 4096, 11008, 32 * 128, 32},
    {"llama3-8b", 4096, 14336, 8 * 128, 32},
    {"llama3-70b", 8192, 28672, 8 * 128, 80},
    {"qwen2.5-7b", 3584, 18944, 4 * 128, 28},
};

std::vector<LayerShape> BlockOf(const Model& model) {
  const int64_t hidden = model.hidden;
  return {{"q", hidden, hidden},
          {"k", hidden, model.key_value},
          {"v", hidden, model.key_value},
          {"o", hidden, hidden},
          {"gate", hidden, model.feed_forward},
          {"up", hidden, model.feed_forward},
          {"down", model.feed_forward, hidden}};
}

absl::StatusOr<Model> FindModel(absl::string_view name) {
  for (const Model& model : kModels) {
    if (model.name == name) return model;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--walk=", name, ": must be one of ",
                   absl::StrJoin(KnownModels(), ", ")));
}

}  // namespace

std::vector<std::string> KnownModels() {
  std::vector<std::string> names;
  for (const Model& model : kModels) names.emplace_back(model.name);
  return names;
}

std::string BlockLayerName(int64_t block, absl::string_view layer) {
  return absl::StrCat("block.", block, ".", layer);
}

absl::StatusOr<std::vector<LayerShape>> ModelLayers(absl::string_view model,
                                                    int64_t max_blocks) {
  ASSIGN_OR_RETURN(const Model found, FindModel(model));
  const int64_t blocks =
      max_blocks == 0 ? found.blocks : std::min(found.blocks, max_blocks);
  std::vector<LayerShape> layers;
  for (int64_t block = 0; block < blocks; ++block) {
    for (const LayerShape& layer : BlockOf(found)) {
      layers.push_back({BlockLayerName(block, layer.name), layer.k, layer.n});
    }
  }
  return layers;
}

}  // namespace qgemm
