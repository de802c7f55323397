// SPDX-License-Identifier: Apache-2.0
//
// A block of a model file is kept until its end and then appended as often as
// it is repeated.

#include "loadtest/workload/model.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"

namespace qgemm::loadtest {
namespace {

constexpr int64_t kMaxLayers = 65536;
// Room for a prefix and an index in the 128 bytes of a name on the server.
constexpr size_t kMaxNameBytes = 64;

// hidden_size, intermediate_size, num_key_value_heads times the size of a
// head, and num_hidden_layers of a model's config.json.
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

LayerShape InBlock(int64_t block, const LayerShape& layer) {
  return {absl::StrCat("block.", block, ".", layer.name), layer.k, layer.n};
}

bool IsLayerName(absl::string_view name) {
  return name.size() <= kMaxNameBytes && absl::c_all_of(name, [](char c) {
           return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-';
         });
}

bool ParseNumber(absl::string_view text, int64_t highest, int64_t* number) {
  return absl::SimpleAtoi(text, number) && *number >= 1 && *number <= highest;
}

// Holds what the lines so far have said.
class ModelFileParser {
 public:
  explicit ModelFileParser(int64_t max_blocks) : max_blocks_(max_blocks) {}

  // Lines count from 1.
  absl::Status Add(absl::string_view content) {
    ++line_;
    content_ = absl::StripAsciiWhitespace(content.substr(0, content.find('#')));
    if (content_.empty()) return absl::OkStatus();
    const Words words =
        absl::StrSplit(content_, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    if (words[0] == "repeat") return BeginRepeat(words);
    if (words[0] == "end") return EndRepeat(words);
    return AddLayers(words);
  }

  absl::StatusOr<std::vector<LayerShape>> Finish() && {
    if (repeat_line_ > 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "model: line ", repeat_line_, ": this repeat must have an end"));
    }
    if (!model_.layers.empty()) return std::move(model_.layers);
    return absl::InvalidArgumentError("model: must have one layer or more");
  }

 private:
  using Words = std::vector<absl::string_view>;

  struct LayerList {
    std::vector<LayerShape> layers;
    std::set<std::string> names;
  };

  absl::Status Error(absl::string_view allowed) const {
    return absl::InvalidArgumentError(
        absl::StrCat("model: line ", line_, " \"", content_, "\": ", allowed));
  }

  absl::Status BeginRepeat(const Words& words) {
    if (repeat_line_ > 0) {
      return Error(absl::StrCat("the repeat of line ", repeat_line_,
                                " must end before another begins"));
    }
    if (words.size() != 2 || !ParseNumber(words[1], kMaxLayers, &repeats_)) {
      return Error(absl::StrCat("must be repeat COUNT, 1 to ", kMaxLayers));
    }
    repeat_line_ = line_;
    return absl::OkStatus();
  }

  absl::Status EndRepeat(const Words& words) {
    if (words.size() != 1 || repeat_line_ == 0) {
      return Error("must be a line of its own after repeat COUNT");
    }
    const int64_t room = max_blocks_ == 0 ? repeats_ : max_blocks_ - blocks_;
    for (int64_t i = 0; i < std::min(repeats_, room); ++i, ++blocks_) {
      for (const LayerShape& layer : block_.layers) {
        RETURN_IF_ERROR(Append(InBlock(blocks_, layer), &model_));
      }
    }
    repeat_line_ = 0;
    block_ = LayerList();
    return absl::OkStatus();
  }

  absl::Status AddLayers(const Words& words) {
    LayerList& list = repeat_line_ > 0 ? block_ : model_;
    if (!IsLayerName(words[0])) {
      return Error(absl::StrCat("a name must be 1 to ", kMaxNameBytes,
                                " letters, digits, '.', '_' or '-'"));
    }
    const absl::StatusOr<LayerShape> layer =
        ParseShape(words.size() < 2 ? "" : words[1], std::string(words[0]));
    if (!layer.ok()) {
      return Error(
          absl::StrCat("must be NAME KxN: ", layer.status().message()));
    }
    if (words.size() == 2) return Append(*layer, &list);
    int64_t count = 0;
    if (words.size() != 3 || words[2][0] != '*' ||
        !ParseNumber(words[2].substr(1), kMaxLayers, &count)) {
      return Error(
          absl::StrCat("must be NAME KxN *COUNT, COUNT 1 to ", kMaxLayers));
    }
    for (int64_t i = 0; i < count; ++i) {
      RETURN_IF_ERROR(Append(
          {absl::StrCat(layer->name, ".", i), layer->k, layer->n}, &list));
    }
    return absl::OkStatus();
  }

  absl::Status Append(LayerShape layer, LayerList* list) const {
    if (!list->names.insert(layer.name).second) {
      return Error(absl::StrCat("a layer is named ", layer.name, " already"));
    }
    list->layers.push_back(std::move(layer));
    if (list->layers.size() <= kMaxLayers) return absl::OkStatus();
    return Error(
        absl::StrCat("a model must have at most ", kMaxLayers, " layers"));
  }

  const int64_t max_blocks_;
  int64_t line_ = 0;
  absl::string_view content_;
  LayerList model_;
  int64_t blocks_ = 0;       // in model_
  int64_t repeat_line_ = 0;  // of the block being read; 0: none
  int64_t repeats_ = 0;
  LayerList block_;
};

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

absl::StatusOr<std::vector<LayerShape>> ModelLayers(absl::string_view model,
                                                    int64_t max_blocks) {
  const auto* const found = absl::c_find_if(
      kModels, [&](const Model& each) { return each.name == model; });
  if (found == std::end(kModels)) return absl::NotFoundError(model);
  const int64_t blocks =
      max_blocks == 0 ? found->blocks : std::min(found->blocks, max_blocks);
  std::vector<LayerShape> layers;
  for (int64_t block = 0; block < blocks; ++block) {
    for (const LayerShape& layer : BlockOf(*found)) {
      layers.push_back(InBlock(block, layer));
    }
  }
  return layers;
}

absl::StatusOr<std::vector<LayerShape>> ParseModelFile(absl::string_view text,
                                                       int64_t max_blocks) {
  ModelFileParser parser(max_blocks);
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    RETURN_IF_ERROR(parser.Add(line));
  }
  return std::move(parser).Finish();
}

}  // namespace qgemm::loadtest
