// SPDX-License-Identifier: Apache-2.0

#include "loadtest/layer_setup.h"

#include <map>
#include <tuple>
#include <utility>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "loadtest/workload/random_operands.h"

namespace qgemm {
namespace {

constexpr absl::Duration kCallTimeout = absl::Minutes(10);

bool Uploads(Keep keep) {
  return keep == Keep::kUploadAndRemove || keep == Keep::kUpload;
}

bool Removes(Keep keep) {
  return keep == Keep::kUploadAndRemove || keep == Keep::kRemove;
}

std::string DrawPrefix() {
  absl::BitGen random;
  return absl::StrCat("loadtest/", absl::Hex(absl::Uniform<uint64_t>(random)),
                      "/");
}

LoadedLayer Describe(const std::string& name, const WeightsInfo& weights) {
  LoadedLayer layer;
  layer.name = name;
  layer.format = weights.format;
  layer.k = weights.k;
  layer.n = weights.n;
  layer.resident_bytes = weights.resident_bytes;
  return layer;
}

}  // namespace

LayerSetup::LayerSetup(const LoadtestOptions& options)
    : options_(options), private_prefix_(DrawPrefix()) {
  if (!options_.layers.is_synthetic()) {
    names_ = options_.layers.names;
    return;
  }
  NumberSynthetic();
  for (size_t i = 0; i < synthetic_.size(); ++i) {
    names_.push_back(options_.layers.keep == Keep::kUploadAndRemove
                         ? absl::StrCat(private_prefix_, i)
                         : SyntheticName(synthetic_[i]));
  }
}

// Layers of one format and shape are numbered from 0.
void LayerSetup::NumberSynthetic() {
  const LayerOptions& layers = options_.layers;
  std::map<std::tuple<std::string, int64_t, int64_t>, int64_t> counts;
  for (size_t i = 0; i < layers.shapes.size(); ++i) {
    SyntheticLayer layer;
    layer.format = layers.formats[i % layers.formats.size()];
    layer.shape = {layers.shapes[i].k, layers.shapes[i].n};
    layer.seed = options_.seed;
    layer.index = counts[{layer.format, layer.shape.k, layer.shape.n}]++;
    synthetic_.push_back(layer);
  }
}

absl::Status LayerSetup::Upload(Client* client, int layer) {
  ASSIGN_OR_RETURN(const EncodedWeights encoded,
                   maker_.Make(synthetic_[layer]));
  LoadOptions load;
  load.name = names_[layer];
  load.deadline = absl::Now() + kCallTimeout;
  ASSIGN_OR_RETURN(const LoadResult loaded, client->LoadWeights(encoded, load));
  uploaded_ = layer + 1;
  layers_.push_back(Describe(names_[layer], loaded.weights));
  return absl::OkStatus();
}

absl::Status LayerSetup::Prepare(
    Client* client, const std::atomic<bool>& stop,
    const std::function<void(int done, int all)>& progress) {
  const bool upload =
      options_.layers.is_synthetic() && Uploads(options_.layers.keep);
  for (size_t i = 0; i < names_.size(); ++i) {
    if (stop.load()) return absl::CancelledError("stopped by a signal");
    if (upload) {
      RETURN_IF_ERROR(Upload(client, static_cast<int>(i)));
    } else {
      ASSIGN_OR_RETURN(
          const WeightsInfo weights,
          client->GetWeights(names_[i], absl::Now() + kCallTimeout));
      layers_.push_back(Describe(names_[i], weights));
    }
    if (progress)
      progress(static_cast<int>(i) + 1, static_cast<int>(names_.size()));
  }
  return absl::OkStatus();
}

absl::Status LayerSetup::TearDown(Client* client) {
  if (!options_.layers.is_synthetic() || !Removes(options_.layers.keep)) {
    return absl::OkStatus();
  }
  if (client == nullptr) {
    return absl::UnavailableError("there is no server to remove layers from");
  }
  const int count = options_.layers.keep == Keep::kRemove
                        ? static_cast<int>(names_.size())
                        : uploaded_;
  absl::Status first;
  for (int i = 0; i < count; ++i) {
    const absl::Status removed =
        client->UnloadWeights(names_[i], absl::Now() + kCallTimeout).status();
    if (!removed.ok() && first.ok()) {
      first = absl::Status(
          removed.code(),
          absl::StrCat(names_[i], " is still there: ", removed.message()));
    }
  }
  return first;
}

absl::StatusOr<CanonicalWeights> LayerSetup::Canonical(int layer) {
  if (!options_.layers.is_synthetic()) {
    return absl::FailedPreconditionError(
        "what named weights hold is not known here");
  }
  ASSIGN_OR_RETURN(const EncodedWeights encoded,
                   maker_.Make(synthetic_[layer]));
  return DecodeWeights(encoded);
}

}  // namespace qgemm
