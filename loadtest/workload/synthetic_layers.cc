// SPDX-License-Identifier: Apache-2.0
//
// Which base a layer has, and how far its rows are moved.

#include "loadtest/workload/synthetic_layers.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "loadtest/random/random_bits.h"
#include "loadtest/workload/random_operands.h"
#include "loadtest/workload/rotated_rows.h"

namespace qgemm {
namespace {

// A prime, so that its multiples modulo n differ as long as n is no multiple
// of it; large, so that equal rows of successive layers lie far apart.
constexpr int64_t kRowStep = 7919;

absl::Status CheckLayer(const SyntheticLayer& layer) {
  if (layer.shape.n < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        SyntheticName(layer), ": n = ", layer.shape.n, ": must be 1 or more"));
  }
  if (layer.index < 0) {
    return absl::InvalidArgumentError(absl::StrCat(SyntheticName(layer),
                                                   ": index = ", layer.index,
                                                   ": must be 0 or more"));
  }
  return absl::OkStatus();
}

// `n` rows have `n` rotations; layers beyond them are drawn from other seeds.
uint64_t BaseSeed(const SyntheticLayer& layer) {
  const int64_t generation = layer.index / layer.shape.n;
  return generation == 0 ? layer.seed
                         : MixBits(layer.seed ^ MixBits(generation));
}

}  // namespace

std::vector<SyntheticLayer> NumberLayers(absl::Span<const LayerShape> shapes,
                                         absl::string_view format,
                                         uint64_t seed) {
  std::map<std::pair<int64_t, int64_t>, int64_t> counts;
  std::vector<SyntheticLayer> layers;
  for (const LayerShape& shape : shapes) {
    layers.push_back({std::string(format),
                      {shape.k, shape.n},
                      seed,
                      counts[{shape.k, shape.n}]++});
  }
  return layers;
}

int64_t RowShift(int64_t index, int64_t n) {
  const int64_t step = n % kRowStep == 0 ? 1 : kRowStep % n;
  return index % n * step % n;
}

absl::StatusOr<EncodedWeights> SyntheticLayers::Make(
    const SyntheticLayer& layer) {
  RETURN_IF_ERROR(CheckLayer(layer));
  ASSIGN_OR_RETURN(const EncodedWeights* base, BaseOf(layer));
  return RotateRows(*base, RowShift(layer.index, layer.shape.n));
}

absl::StatusOr<const EncodedWeights*> SyntheticLayers::BaseOf(
    const SyntheticLayer& layer) {
  SyntheticLayer first = layer;
  first.seed = BaseSeed(layer);
  first.index = 0;
  const std::string key = SyntheticName(first);
  const auto found = bases_.find(key);
  if (found != bases_.end()) return &found->second;
  ASSIGN_OR_RETURN(EncodedWeights drawn,
                   MakeRandomWeights(first.format, first.shape, first.seed));
  return &bases_.emplace(key, std::move(drawn)).first->second;
}

}  // namespace qgemm
