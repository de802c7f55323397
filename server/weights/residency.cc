// SPDX-License-Identifier: Apache-2.0
//
// The weight store's layers as they stay in memory, and leave it.

#include <utility>

#include "base/status_macros.h"
#include "server/weights/weight_store.h"

namespace qgemm {
namespace {

// The client of a pin. One that manages all holds whatever is held.
std::string PinOwner(const Principal* caller) {
  return ManagesAll(caller) ? "" : caller->client_id;
}

}  // namespace

void WeightStore::MakeRoom(int64_t bytes) {
  MutexLock lock(&room_mutex_);
  const int64_t needed_bytes =
      budget_.used_bytes() + bytes - budget_.limit_bytes();
  const std::set<std::string> pinned = PinnedIds();
  std::vector<std::shared_ptr<const Weights>> resident;
  std::vector<EvictionCandidate> candidates;
  for (auto& layer : layers_.records()) {
    if (layer->resident == nullptr) continue;
    EvictionCandidate candidate;
    candidate.bytes = layer->resident->resident_bytes() + kLayerRecordBytes;
    candidate.last_use = layer->use->last();
    candidate.leased_until = layer->use->leased_until();
    candidate.is_pinned = pinned.count(layer->id) != 0;
    candidate.is_in_use = layer->resident.use_count() > 1;
    candidate.is_on_disk = state()->Has(layer->id);
    candidates.push_back(candidate);
    resident.push_back(std::move(layer));
  }
  const std::vector<size_t> victims = ChooseVictims(
      candidates, needed_bytes, state_.clock->Now(), state_.eviction);
  for (const size_t victim : victims) {
    auto on_disk = std::make_shared<Weights>(*resident[victim]);
    on_disk->resident = nullptr;
    layers_.Replace(resident[victim], on_disk);
  }
  if (metrics_ != nullptr) {
    metrics_->LayersEvicted(static_cast<int64_t>(victims.size()));
  }
}

StateFigures WeightStore::state_figures() const {
  StateFigures figures;
  figures.bytes = state()->used_bytes();
  figures.limit_bytes = state()->max_bytes();
  figures.layers = state()->file_count();
  for (const auto& layer : layers_.records()) {
    figures.resident_layers += layer->resident != nullptr ? 1 : 0;
  }
  return figures;
}

absl::StatusOr<std::shared_ptr<const Weights>> WeightStore::FindToUse(
    const Principal* caller, absl::string_view name_or_id) const {
  auto found = Find(caller, name_or_id);
  if (found.ok() && state_.clock != nullptr) {
    (*found)->use->Touch(state_.clock->Now());
  }
  return found;
}

absl::StatusOr<WeightStore::Layers> WeightStore::FindAll(
    const Principal* caller, absl::Span<const std::string> weights) const {
  Layers layers;
  for (const std::string& name_or_id : weights) {
    ASSIGN_OR_RETURN(auto layer, Find(caller, name_or_id));
    layers.push_back(std::move(layer));
  }
  return layers;
}

absl::StatusOr<WeightStore::Layers> WeightStore::Touch(
    const Principal* caller, absl::Span<const std::string> weights,
    absl::Duration lease) const {
  ASSIGN_OR_RETURN(Layers layers, FindAll(caller, weights));
  if (state_.clock == nullptr) return layers;  // nothing leaves memory
  const absl::Time now = state_.clock->Now();
  for (const auto& layer : layers) {
    layer->use->Touch(now);
    if (lease > absl::ZeroDuration()) layer->use->Lease(now + lease);
  }
  return layers;
}

absl::StatusOr<WeightStore::Layers> WeightStore::Pin(
    const Principal* caller, absl::Span<const std::string> weights) {
  ASSIGN_OR_RETURN(Layers layers, FindAll(caller, weights));
  const std::string owner = PinOwner(caller);
  for (size_t i = 0; i < layers.size(); ++i) {
    if (!ManagesAll(caller) && !layers_.IsHeldBy(owner, layers[i]->id)) {
      return OwnedByAnother(*caller, "weights", weights[i]);
    }
  }
  PinnedIds();  // what it forgets makes room
  MutexLock lock(&pins_mutex_);
  for (const auto& layer : layers) pins_.emplace(owner, layer->id);
  return layers;
}

absl::Status WeightStore::Unpin(const Principal* caller,
                                absl::Span<const std::string> weights) {
  ASSIGN_OR_RETURN(const Layers layers, FindAll(caller, weights));
  const std::string owner = PinOwner(caller);
  MutexLock lock(&pins_mutex_);
  for (const auto& layer : layers) {
    for (auto pin = pins_.begin(); pin != pins_.end();) {
      const bool ends = pin->second == layer->id &&
                        (ManagesAll(caller) || pin->first == owner);
      pin = ends ? pins_.erase(pin) : std::next(pin);
    }
  }
  return absl::OkStatus();
}

std::set<std::string> WeightStore::PinnedIds() {
  std::set<std::string> pinned;
  for (const std::string& name : state_.pin_names) {
    const auto layer = Find(kAnybody, name);
    if (layer.ok()) pinned.insert((*layer)->id);
  }
  MutexLock lock(&pins_mutex_);
  for (auto pin = pins_.begin(); pin != pins_.end();) {
    const auto& [owner, id] = *pin;
    const bool is_held =
        owner.empty() ? Find(kAnybody, id).ok() : layers_.IsHeldBy(owner, id);
    if (is_held) pinned.insert(id);
    pin = is_held ? std::next(pin) : pins_.erase(pin);
  }
  return pinned;
}

}  // namespace qgemm
