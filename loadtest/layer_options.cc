// SPDX-License-Identifier: Apache-2.0

#include "loadtest/layer_options.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "loadtest/flag_checks.h"
#include "loadtest/workload/model_file.h"

namespace qgemm {
namespace {

constexpr int kMaxLayers = 10000;

Keep KeepOf(const LoadtestFlags& flags) {
  if (flags.setup) {
    return flags.teardown ? Keep::kUploadAndRemove : Keep::kUpload;
  }
  return flags.teardown ? Keep::kRemove : Keep::kNeither;
}

absl::StatusOr<std::vector<LayerShape>> WalkShapes(const LoadtestFlags& flags,
                                                   const LoadtestHost& host) {
  RETURN_IF_ERROR(CheckRange("walk_blocks", flags.walk_blocks, 0, kMaxLayers));
  const std::vector<std::string> known = KnownModels();
  if (std::count(known.begin(), known.end(), flags.walk) > 0) {
    return ModelLayers(flags.walk, flags.walk_blocks);
  }
  const absl::StatusOr<std::string> text = host.read_file(flags.walk);
  if (!text.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--walk=", flags.walk, ": must be ", absl::StrJoin(known, ", "),
        " or a file of layers: ", text.status().message()));
  }
  return ParseModelFile(*text, flags.walk_blocks);
}

absl::StatusOr<std::vector<LayerShape>> SyntheticShapes(
    const LoadtestFlags& flags, int formats) {
  RETURN_IF_ERROR(CheckRange("layers", flags.layers, 1, kMaxLayers));
  std::vector<LayerShape> shapes;
  for (absl::string_view text : absl::StrSplit(flags.synthetic, ',')) {
    ASSIGN_OR_RETURN(const SyntheticShape shape, ParseShape("synthetic", text));
    for (int i = 0; i < std::max(flags.layers, formats); ++i) {
      shapes.push_back({absl::StrCat(text, ".", i), shape.k, shape.n});
    }
  }
  return shapes;
}

absl::Status CheckLayerSource(const LoadtestFlags& flags) {
  const int sources = int{!flags.weights.empty()} +
                      int{!flags.synthetic.empty()} + int{!flags.walk.empty()};
  if (sources == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "give one of --weights=NAME, --synthetic=KxN and --walk=MODEL");
}

}  // namespace

absl::StatusOr<LayerOptions> ParseLayerOptions(const LoadtestFlags& flags,
                                               const LoadtestHost& host) {
  RETURN_IF_ERROR(CheckLayerSource(flags));
  LayerOptions layers;
  layers.formats = absl::StrSplit(flags.format, ',');
  layers.keep = KeepOf(flags);
  layers.walk = !flags.walk.empty();
  layers.zipf = flags.zipf;
  layers.text = absl::StrCat(flags.weights, flags.synthetic, flags.walk);
  RETURN_IF_ERROR(CheckNumber("zipf", flags.zipf, 5));
  if (layers.walk && layers.zipf > 0) {
    return absl::InvalidArgumentError(
        "--zipf and --walk: a walk calls the layers in order");
  }
  if (!flags.weights.empty()) {
    layers.names = absl::StrSplit(flags.weights, ',', absl::SkipEmpty());
    if (layers.names.empty()) {
      return BadFlag("weights", flags.weights, "names separated by commas");
    }
  } else if (layers.walk) {
    ASSIGN_OR_RETURN(layers.shapes, WalkShapes(flags, host));
  } else {
    ASSIGN_OR_RETURN(
        layers.shapes,
        SyntheticShapes(flags, static_cast<int>(layers.formats.size())));
  }
  return layers;
}

}  // namespace qgemm
