// SPDX-License-Identifier: Apache-2.0
//
// The weight store's layers as they stay in memory, and leave it.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/weights/weight_store.h"

namespace qgemm {
namespace {

// The client of a pin. One that manages all holds whatever is held.
std::string PinOwner(const Principal* caller) {
  return ManagesAll(caller) ? "" : caller->client_id;
}

// Bytes of the budget that the memory of a layer takes.
int64_t BytesOf(const Weights& layer) {
  return layer.resident->resident_bytes() + kLayerRecordBytes;
}

absl::Status NeverRoom(int64_t bytes) {
  return absl::ResourceExhaustedError(absl::StrCat(
      "the layer is on the disk, and needs ", bytes,
      " bytes of memory to be read; --weights_budget_bytes has no such room "
      "beside the layers that stay: those that are pinned, leased, held by "
      "programs or on no disk; unload or unpin some, or try again later"));
}

}  // namespace

WeightStore::Candidates WeightStore::ResidentLayers() {
  Candidates candidates;
  const std::set<std::string> pinned = PinnedIds();
  for (auto& layer : layers_.records()) {
    if (layer->resident == nullptr) continue;
    EvictionCandidate candidate;
    candidate.bytes = BytesOf(*layer);
    candidate.last_use = layer->use->last();
    candidate.leased_until = layer->use->leased_until();
    candidate.is_pinned = pinned.count(layer->id) != 0;
    candidate.is_held = layer->use->is_held();
    candidate.is_in_use = layer->resident.use_count() > 1;
    candidate.is_on_disk = state()->Has(layer->id);
    candidates.figures.push_back(candidate);
    candidates.layers.push_back(std::move(layer));
  }
  return candidates;
}

bool WeightStore::Evict(const std::shared_ptr<const Weights>& layer) {
  auto on_disk = std::make_shared<Weights>(*layer);
  on_disk->resident = nullptr;
  on_disk->leaving = layer->resident;
  if (!layers_.Replace(layer, on_disk)) return false;
  leaving_.push_back({layer->resident, BytesOf(*layer), layer->use});
  if (metrics_ != nullptr) metrics_->LayersEvicted(1);
  return true;
}

void WeightStore::Evict(const Candidates& candidates,
                        const std::vector<size_t>& victims) {
  for (const size_t victim : victims) Evict(candidates.layers[victim]);
}

absl::Status WeightStore::UnloadToDisk(const Principal* caller,
                                       absl::string_view name_or_id,
                                       absl::string_view if_match) {
  if (state() == nullptr) {
    return absl::FailedPreconditionError(
        "keep_on_disk is set and the server keeps no layers on a disk, as it "
        "has no --state_dir; unload without it");
  }
  MutexLock lock(&room_mutex_);
  for (bool is_done = false; !is_done;) {
    ASSIGN_OR_RETURN(const auto found,
                     layers_.FindToUnload(caller, name_or_id, if_match));
    const Weights& layer = *found.record;
    EndPins(caller, layer.id);
    if (!found.is_shared) layer.use->EndLeases();
    const bool stays =
        found.is_shared || layer.resident == nullptr || layer.use->is_held() ||
        PinnedIds().count(layer.id) != 0 || !state()->Has(layer.id);
    is_done = stays || Evict(found.record);
  }
  room_->Ring();  // pins and leases have ended
  return absl::OkStatus();
}

void WeightStore::MakeRoom(int64_t bytes) {
  MutexLock lock(&room_mutex_);
  const int64_t needed_bytes =
      budget_.used_bytes() + bytes - budget_.limit_bytes();
  const Candidates candidates = ResidentLayers();
  Evict(candidates, ChooseVictims(candidates.figures, needed_bytes,
                                  state_.clock->Now(), state_.eviction));
}

WeightStore::LeavingBytes WeightStore::BytesOfLeaving() {
  const auto has_left = [](const LeavingLayer& layer) {
    return layer.memory.expired();
  };
  leaving_.erase(std::remove_if(leaving_.begin(), leaving_.end(), has_left),
                 leaving_.end());
  LeavingBytes bytes;
  for (const LeavingLayer& layer : leaving_) {
    (layer.use->is_held() ? bytes.held : bytes.soon) += layer.bytes;
  }
  return bytes;
}

std::shared_ptr<const Weights> WeightStore::Revive(
    const std::shared_ptr<const Weights>& held,
    std::shared_ptr<const ResidentWeights> resident) {
  MutexLock lock(&room_mutex_);
  leaving_.erase(std::remove_if(leaving_.begin(), leaving_.end(),
                                [&](const LeavingLayer& layer) {
                                  return layer.memory.lock() == resident;
                                }),
                 leaving_.end());
  auto revived = std::make_shared<Weights>(*held);
  revived->leaving.reset();
  revived->resident = std::move(resident);
  return Replace(held, std::move(revived));
}

absl::StatusOr<WeightStore::Departure> WeightStore::SendAway(int64_t bytes) {
  MutexLock lock(&room_mutex_);
  const int64_t limit_bytes = budget_.limit_bytes();
  const absl::Time now = state_.clock->Now();
  const Candidates candidates = ResidentLayers();
  const LeavingBytes leaving = BytesOfLeaving();
  if (bytes >
      limit_bytes - leaving.held - StayingBytes(candidates.figures, now)) {
    return NeverRoom(bytes);
  }
  const int64_t needed_bytes =
      budget_.used_bytes() - leaving.soon - (limit_bytes - bytes);
  if (needed_bytes <= 0) return Departure{true};
  const RoomPlan plan =
      PlanRoom(candidates.figures, needed_bytes, now, state_.eviction);
  Evict(candidates, plan.victims);
  const bool is_enough = !plan.victims.empty();
  return Departure{is_enough, is_enough ? absl::InfiniteFuture() : plan.next};
}

absl::StatusOr<WeightStore::Room> WeightStore::AwaitRoom(
    const Weights& held, int64_t bytes,
    absl::FunctionRef<RoomPatience()> patience) {
  if (room_->is_empty() && held.leaving.expired()) {
    auto reserved = budget_.Reserve(bytes);
    if (reserved.ok()) return Room{nullptr, *std::move(reserved)};
  }
  RoomQueue::Place place(room_.get());
  while (true) {
    const uint64_t rings = room_->rings();
    const RoomPatience most = patience();
    if (most == RoomPatience::kNone) {
      return absl::CancelledError("nobody waits for the layer any more");
    }
    const auto found = Find(kAnybody, held.id);
    if (!found.ok() || found->get() != &held) {
      return absl::CancelledError("the layer was unloaded or has come");
    }
    const absl::Time now = state_.clock->Now();
    absl::Time next = now + kTurnPatience;
    if (place.HasTurn(now)) {
      if (auto resident = held.leaving.lock()) return Room{resident, {}};
      auto reserved = budget_.Reserve(bytes);
      if (reserved.ok()) return Room{nullptr, *std::move(reserved)};
      ASSIGN_OR_RETURN(const Departure departure, SendAway(bytes));
      next = departure.next;
      const bool may_end = departure.is_enough || GiveUpOne(nullptr);
      if (!may_end && patience() == RoomPatience::kForUsers) {
        return reserved.status();
      }
    }
    room_->AwaitRing(rings, next - state_.clock->Now());
  }
}

std::shared_ptr<const ResidentWeights> WeightStore::Hold(
    const Weights& weights) const {
  struct Held {
    ~Held() {
      use->EndHold();
      resident = nullptr;
      room->Ring();
    }
    std::shared_ptr<LayerUse> use;
    std::shared_ptr<const ResidentWeights> resident;
    std::shared_ptr<RoomQueue> room;
  };
  if (weights.use == nullptr || weights.resident == nullptr) {
    return weights.resident;
  }
  weights.use->BeginHold();
  room_->Ring();  // it may have counted among those that leave
  auto held = std::make_shared<Held>();
  held->use = weights.use;
  held->resident = weights.resident;
  held->room = room_;
  const ResidentWeights* const layer = weights.resident.get();
  return std::shared_ptr<const ResidentWeights>(held, layer);
}

StateFigures WeightStore::state_figures() const {
  StateFigures figures;
  figures.bytes = state()->used_bytes();
  figures.limit_bytes = state()->max_bytes();
  figures.layers = state()->file_count();
  figures.image_bytes = state()->images()->used_bytes();
  figures.images = state()->images()->file_count();
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
  for (const auto& layer : layers) EndPins(caller, layer->id);
  room_->Ring();
  return absl::OkStatus();
}

void WeightStore::EndPins(const Principal* caller, const std::string& id) {
  const std::string owner = PinOwner(caller);
  MutexLock lock(&pins_mutex_);
  for (auto pin = pins_.begin(); pin != pins_.end();) {
    const bool ends =
        pin->second == id && (ManagesAll(caller) || pin->first == owner);
    pin = ends ? pins_.erase(pin) : std::next(pin);
  }
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
