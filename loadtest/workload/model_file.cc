// SPDX-License-Identifier: Apache-2.0
//
// One statement a line; a block is kept until its end and then written as
// often as it is repeated.

#include "loadtest/workload/model_file.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"

namespace qgemm {
namespace {

constexpr int64_t kMaxExtent = int64_t{1} << 20;
constexpr int64_t kMaxLayers = 65536;
// Room for a prefix and an index in the 128 bytes of a name on the server.
constexpr size_t kMaxNameBytes = 64;

bool IsLayerName(absl::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes &&
         absl::c_all_of(name, [](char c) {
           return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-';
         });
}

bool ParseExtent(absl::string_view text, int64_t* extent) {
  return absl::SimpleAtoi(text, extent) && *extent >= 1 &&
         *extent <= kMaxExtent;
}

bool ParseCount(absl::string_view text, int64_t* count) {
  return absl::SimpleAtoi(text, count) && *count >= 1 && *count <= kMaxLayers;
}

struct LayerList {
  std::vector<LayerShape> layers;
  absl::flat_hash_set<std::string> names;  // theirs
};

// Holds what the lines so far have said.
class ModelFileParser {
 public:
  explicit ModelFileParser(int64_t max_blocks) : max_blocks_(max_blocks) {}

  // Lines count from 1.
  absl::Status Add(absl::string_view content);
  absl::StatusOr<std::vector<LayerShape>> Finish() &&;

 private:
  using Words = std::vector<absl::string_view>;

  absl::Status Error(absl::string_view legal) const;
  absl::Status BeginRepeat(const Words& words);
  absl::Status EndRepeat(const Words& words);
  absl::Status AddLayers(const Words& words);
  absl::Status Append(LayerShape layer, LayerList* list) const;

  bool in_repeat() const { return repeat_line_ > 0; }

  const int64_t max_blocks_;
  int64_t line_ = 0;
  absl::string_view content_;
  LayerList model_;
  int64_t blocks_ = 0;       // in model_
  int64_t repeat_line_ = 0;  // of the block being read; 0: none
  int64_t repeat_count_ = 0;
  LayerList block_;
};

absl::Status ModelFileParser::Error(absl::string_view legal) const {
  return absl::InvalidArgumentError(
      absl::StrCat("model: line ", line_, " \"", content_, "\": ", legal));
}

absl::Status ModelFileParser::Add(absl::string_view content) {
  ++line_;
  content_ = absl::StripAsciiWhitespace(content.substr(0, content.find('#')));
  if (content_.empty()) return absl::OkStatus();
  const Words words =
      absl::StrSplit(content_, absl::ByAnyChar(" \t"), absl::SkipEmpty());
  if (words[0] == "repeat") return BeginRepeat(words);
  if (words[0] == "end") return EndRepeat(words);
  return AddLayers(words);
}

absl::Status ModelFileParser::BeginRepeat(const Words& words) {
  if (in_repeat()) {
    return Error(absl::StrCat("the repeat of line ", repeat_line_,
                              " must end before another begins"));
  }
  if (words.size() != 2 || !ParseCount(words[1], &repeat_count_)) {
    return Error(absl::StrCat("must be repeat COUNT, 1 to ", kMaxLayers));
  }
  repeat_line_ = line_;
  return absl::OkStatus();
}

absl::Status ModelFileParser::EndRepeat(const Words& words) {
  if (words.size() != 1 || !in_repeat()) {
    return Error("must be a line of its own after repeat COUNT");
  }
  const int64_t room = max_blocks_ == 0 ? repeat_count_ : max_blocks_ - blocks_;
  for (int64_t i = 0; i < std::min(repeat_count_, room); ++i) {
    for (const LayerShape& layer : block_.layers) {
      RETURN_IF_ERROR(Append(
          {BlockLayerName(blocks_, layer.name), layer.k, layer.n}, &model_));
    }
    ++blocks_;
  }
  repeat_line_ = 0;
  block_ = LayerList();
  return absl::OkStatus();
}

absl::Status ModelFileParser::AddLayers(const Words& words) {
  LayerList& list = in_repeat() ? block_ : model_;
  LayerShape layer{std::string(words[0]), 0, 0};
  if (!IsLayerName(layer.name)) {
    return Error(absl::StrCat("a name must be 1 to ", kMaxNameBytes,
                              " letters, digits, '.', '_' or '-'"));
  }
  const std::pair<absl::string_view, absl::string_view> extents =
      absl::StrSplit(words.size() < 2 ? "" : words[1], absl::MaxSplits('x', 1));
  if (!ParseExtent(extents.first, &layer.k) ||
      !ParseExtent(extents.second, &layer.n)) {
    return Error(
        absl::StrCat("must be NAME KxN, K and N each 1 to ", kMaxExtent));
  }
  if (words.size() == 2) return Append(std::move(layer), &list);
  int64_t count = 0;
  if (words.size() != 3 || words[2][0] != '*' ||
      !ParseCount(words[2].substr(1), &count)) {
    return Error(
        absl::StrCat("must be NAME KxN *COUNT, COUNT 1 to ", kMaxLayers));
  }
  for (int64_t i = 0; i < count; ++i) {
    RETURN_IF_ERROR(
        Append({absl::StrCat(layer.name, ".", i), layer.k, layer.n}, &list));
  }
  return absl::OkStatus();
}

absl::Status ModelFileParser::Append(LayerShape layer, LayerList* list) const {
  if (!list->names.insert(layer.name).second) {
    return Error(absl::StrCat("a layer is named ", layer.name, " already"));
  }
  list->layers.push_back(std::move(layer));
  if (list->layers.size() <= kMaxLayers) return absl::OkStatus();
  return Error(
      absl::StrCat("a model must have at most ", kMaxLayers, " layers"));
}

absl::StatusOr<std::vector<LayerShape>> ModelFileParser::Finish() && {
  if (in_repeat()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model: line ", repeat_line_, ": this repeat must have an end"));
  }
  if (model_.layers.empty()) {
    return absl::InvalidArgumentError("model: must have one layer or more");
  }
  return std::move(model_.layers);
}

}  // namespace

absl::StatusOr<std::vector<LayerShape>> ParseModelFile(absl::string_view text,
                                                       int64_t max_blocks) {
  ModelFileParser parser(max_blocks);
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    RETURN_IF_ERROR(parser.Add(line));
  }
  return std::move(parser).Finish();
}

}  // namespace qgemm
