// SPDX-License-Identifier: Apache-2.0
//
// Turns and walks by division, Zipf by the inverse of its distribution.

#include "loadtest/workload/weights_pick.h"

#include <cmath>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "loadtest/workload/request_hash.h"

namespace qgemm {
namespace {

// P(layer <= i) of each layer i.
std::vector<double> ZipfEnds(int layers, double exponent) {
  std::vector<double> ends;
  double sum = 0;
  for (int i = 0; i < layers; ++i) {
    sum += std::pow(i + 1, -exponent);
    ends.push_back(sum);
  }
  for (double& end : ends) end /= sum;
  return ends;
}

}  // namespace

LayerPicker::LayerPicker(const LayerPickOptions& options) : options_(options) {
  if (options.order == LayerOrder::kZipf) {
    zipf_ends_ = ZipfEnds(options.layers, options.zipf_exponent);
  }
}

absl::StatusOr<LayerPicker> LayerPicker::Create(
    const LayerPickOptions& options) {
  if (options.layers < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("layers = ", options.layers, ": must be 1 or more"));
  }
  if (options.order == LayerOrder::kZipf &&
      !(options.zipf_exponent > 0 &&
        options.zipf_exponent <= kMaxZipfExponent)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--zipf=", options.zipf_exponent,
                     ": must be above 0 and at most ", kMaxZipfExponent));
  }
  return LayerPicker(options);
}

int LayerPicker::Pick(int64_t client, int64_t sequence) const {
  switch (options_.order) {
    case LayerOrder::kInTurn:
      return static_cast<int>((client + sequence) % options_.layers);
    case LayerOrder::kWalk:
      return static_cast<int>(WalkPosition(client, sequence) % options_.layers);
    case LayerOrder::kZipf:
      break;
  }
  const uint64_t bits =
      HashRequest(options_.seed, HashPurpose::kLayer, client, sequence);
  // The last end is sum / sum: exactly 1, and above every pick.
  const auto end = absl::c_upper_bound(zipf_ends_, UnitInterval(bits));
  return static_cast<int>(end - zipf_ends_.begin());
}

int64_t LayerPicker::Pass(int64_t client, int64_t sequence) const {
  if (options_.order != LayerOrder::kWalk) return sequence;
  return WalkPosition(client, sequence) / options_.layers;
}

int64_t LayerPicker::WalkPosition(int64_t client, int64_t sequence) const {
  if (options_.walk_start == WalkStart::kFirstLayer) return sequence;
  const uint64_t bits =
      HashRequest(options_.seed, HashPurpose::kWalkStart, client, 0);
  return sequence + static_cast<int64_t>(BelowCount(bits, options_.layers));
}

}  // namespace qgemm
