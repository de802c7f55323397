// SPDX-License-Identifier: Apache-2.0

#include "server/weights/weight_store.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/log.h"
#include "base/status_macros.h"

namespace qgemm {
namespace {

// A layer and its share of the budget, which is given back after the memory.
// Its record among the layers that outlive the process goes before it.
struct BudgetedWeights {
  ~BudgetedWeights() {
    if (traffic != nullptr) traffic->AddBytes(-resident->resident_bytes());
  }

  ByteReservation reservation;
  std::shared_ptr<Traffic> traffic;  // null: not counted
  std::shared_ptr<const ResidentWeights> resident;
  KeptEntry kept;
};

// The series that counts the layer: of its first name, or of its id's start.
std::shared_ptr<Traffic> TrafficOf(const std::string& id,
                                   const std::string& name,
                                   ServerMetrics* metrics) {
  constexpr size_t kShownDigits = 12;
  if (metrics == nullptr) return nullptr;
  return metrics->LayerTraffic(name.empty() ? id.substr(0, kShownDigits)
                                            : name);
}

ByteBudgetOptions ToBudgetOptions(int64_t budget_bytes, ServerMetrics* metrics,
                                  std::shared_ptr<RoomQueue> room) {
  ByteBudgetOptions options;
  options.name = "weights budget";
  if (budget_bytes > 0) options.limit_bytes = budget_bytes;
  options.advice = "unload weights or raise --weights_budget_bytes";
  options.on_change = [metrics, room = std::move(room),
                       last_bytes = int64_t{0}](int64_t used_bytes) mutable {
    if (metrics != nullptr) metrics->SetWeightsBytes(used_bytes);
    if (used_bytes < std::exchange(last_bytes, used_bytes)) room->Ring();
  };
  return options;
}

// The error of a budget in the words that the caller may read.
absl::Status NoRoom(const Principal* caller, int64_t bytes,
                    const absl::Status& error) {
  if (ManagesAll(caller)) return error;
  return absl::ResourceExhaustedError(
      absl::StrCat("the server's weights budget has no room for ", bytes,
                   " bytes; unload weights, or try again later"));
}

absl::StatusOr<ByteReservation> ReserveFor(const Principal* caller,
                                           int64_t bytes, ByteBudget* budget) {
  absl::StatusOr<ByteReservation> reserved = budget->Reserve(bytes);
  if (!reserved.ok()) return NoRoom(caller, bytes, reserved.status());
  return reserved;
}

// The error of the state directory, whose paths mean nothing to clients.
absl::Status InWords(absl::string_view operation, const absl::Status& status) {
  if (status.ok()) return status;
  EVENT(WARNING, "state_error")
      .With("operation", operation)
      .With("error", status.message());
  return absl::Status(
      status.code(),
      absl::StrCat("the server cannot ", operation,
                   " in its state directory: ", status.message()));
}

NamedStoreOptions ToNamedStoreOptions(const StoreLimits& limits,
                                      ByteBudget* budget,
                                      OwnerAccounts* accounts,
                                      ServerMetrics* metrics,
                                      StateDirectory* state) {
  NamedStoreOptions options;
  options.noun = "weights";
  options.plural = "layers";
  options.max_records = limits.max_layers;
  options.records_flag = "--max_layers";
  options.max_names = limits.max_names;
  options.names_flag = "--max_names";
  options.reserve_name = [budget](const Principal* caller) {
    return ReserveFor(caller, kNameRecordBytes, budget);
  };
  options.accounts = accounts;
  if (state != nullptr) {
    options.journal = [state](std::vector<NameChange> changes) {
      return InWords("keep the change", state->Append(std::move(changes)));
    };
  }
  if (metrics != nullptr) {
    options.on_change = [metrics](int64_t layers, int64_t names) {
      metrics->SetLayerCounts(layers, names);
    };
  }
  return options;
}

}  // namespace

std::vector<HeldItem> ItemsOf(const Weights& weights) {
  if (weights.resident == nullptr) return {};
  return {{weights.resident.get(),
           weights.resident->resident_bytes() + kLayerRecordBytes}};
}

WeightStore::WeightStore(const StoreLimits& limits, ServerMetrics* metrics,
                         StateTier state)
    : metrics_(metrics),
      state_(std::move(state)),
      limits_(limits),
      room_(std::make_shared<RoomQueue>()),
      budget_(ToBudgetOptions(limits.budget_bytes, metrics, room_)),
      layers_(ToNamedStoreOptions(limits, &budget_, &accounts_, metrics,
                                  state_.directory)) {
  if (metrics_ != nullptr) metrics_->SetWeightsBudget(limits.budget_bytes);
}

absl::Status WeightStore::Restore() {
  if (state() == nullptr) return absl::OkStatus();
  std::map<std::string, std::shared_ptr<const Weights>> layers;
  for (StoredLayer& stored : state()->layers()) {
    Weights weights;
    weights.id = stored.id;
    weights.spec = stored.spec;
    weights.uploaded_bytes = TotalBytes(stored.spec);
    weights.use = std::make_shared<LayerUse>();
    layers[stored.id] = std::make_shared<const Weights>(std::move(weights));
  }
  for (const NameChange& change : state()->table().Changes()) {
    const auto layer = layers.find(change.id);
    CHECK(layer != layers.end());  // the directory dropped such names
    RETURN_IF_ERROR(layers_.Restore(layer->second, change.name, change.owner));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<StateDirectory::Upload>> WeightStore::BeginFile(
    const Principal* caller, const WeightsSpec& spec, const UploadKey* key) {
  if (state() == nullptr) return nullptr;
  auto file = state()->Begin(spec, key);
  while (absl::IsResourceExhausted(file.status()) && GiveUpOne(nullptr)) {
    file = state()->Begin(spec, key);
  }
  if (file.ok()) return file;
  const absl::Status error = InWords("store the upload", file.status());
  if (ManagesAll(caller) || !absl::IsResourceExhausted(error)) return error;
  return absl::ResourceExhaustedError(
      absl::StrCat("the server's disk has no room for ", WeightsFileBytes(spec),
                   " bytes; unload weights, or try again later"));
}

absl::StatusOr<StateDirectory::FileHold> WeightStore::KeepFile(
    std::unique_ptr<StateDirectory::Upload> file, const Sha256Digest& id) {
  if (file == nullptr) return StateDirectory::FileHold();
  auto kept = state()->Keep(std::move(file), id);
  if (!kept.ok()) return InWords("store the upload", kept.status());
  return kept;
}

std::shared_ptr<const ResidentWeights> WeightStore::WithBudget(
    const Weights& weights, ByteReservation reservation) const {
  auto owner = std::make_shared<BudgetedWeights>();
  const ResidentWeights* const layer = weights.resident.get();
  if (weights.traffic != nullptr) {
    weights.traffic->AddBytes(layer->resident_bytes());
  }
  arrivals_.fetch_add(1, std::memory_order_relaxed);
  owner->reservation = std::move(reservation);
  owner->traffic = weights.traffic;
  owner->resident = weights.resident;
  if (state_.kept != nullptr) {
    owner->kept =
        state_.kept->Enter(weights.id, CanonicalText(weights.spec), *layer);
  }
  return std::shared_ptr<const ResidentWeights>(owner, layer);
}

std::shared_ptr<const Weights> WeightStore::MakeResident(
    const std::shared_ptr<const Weights>& held,
    std::shared_ptr<const ResidentWeights> resident,
    ByteReservation reservation) {
  auto loaded = std::make_shared<Weights>(*held);
  loaded->leaving.reset();
  if (loaded->traffic == nullptr) {
    const absl::StatusOr<NamedWeights> named = Get(kAnybody, held->id);
    loaded->traffic = TrafficOf(
        held->id, named.ok() && !named->names.empty() ? named->names[0] : "",
        metrics_);
  }
  loaded->resident = std::move(resident);
  loaded->resident = WithBudget(*loaded, std::move(reservation));
  return Replace(held, std::move(loaded));
}

std::shared_ptr<const Weights> WeightStore::Replace(
    const std::shared_ptr<const Weights>& held,
    std::shared_ptr<const Weights> loaded) {
  const bool is_replaced = layers_.Replace(held, loaded);
  room_->Ring();  // it may leave
  if (is_replaced) return loaded;
  const auto found = Find(kAnybody, held->id);
  return found.ok() ? *found : nullptr;
}

absl::StatusOr<ByteReservation> WeightStore::Reserve(const Principal* caller,
                                                     int64_t bytes) {
  absl::StatusOr<ByteReservation> reserved =
      ReserveFor(caller, bytes, &budget_);
  if (!reserved.ok() && state() != nullptr) {
    MakeRoom(bytes);
    reserved = ReserveFor(caller, bytes, &budget_);
  }
  while (!reserved.ok() && GiveUpOne(nullptr)) {
    reserved = ReserveFor(caller, bytes, &budget_);
  }
  return reserved;
}

absl::StatusOr<OwnerAccounts::Charge> WeightStore::ChargeUpload(
    const Principal* caller, int64_t bytes) {
  absl::StatusOr<OwnerAccounts::Charge> charge = accounts_.Take(caller, bytes);
  while (!charge.ok() && GiveUpOne(&caller->client_id)) {
    charge = accounts_.Take(caller, bytes);
  }
  return charge;
}

void WeightStore::SetGiveUp(GiveUp give_up) {
  MutexLock lock(&give_up_mutex_);
  give_up_ = std::move(give_up);
}

bool WeightStore::GiveUpOne(const std::string* owner) {
  MutexLock lock(&give_up_mutex_);
  return give_up_ != nullptr && give_up_(owner);
}

absl::StatusOr<ByteReservation> WeightStore::ReserveFree(int64_t bytes) {
  if (room_->is_empty()) return budget_.Reserve(bytes);
  return absl::ResourceExhaustedError("other layers wait for room in memory");
}

absl::Status WeightStore::Resize(const Principal* caller, int64_t bytes,
                                 ByteReservation* reservation) {
  const absl::Status resized = reservation->Resize(bytes);
  return resized.ok() ? resized : NoRoom(caller, bytes, resized);
}

absl::StatusOr<std::shared_ptr<const Weights>> WeightStore::Commit(
    const Principal* caller, Weights weights, ByteReservation reservation,
    const NameBinding& binding) {
  CHECK(weights.resident != nullptr);
  weights.traffic = TrafficOf(weights.id, binding.name, metrics_);
  weights.use = std::make_shared<LayerUse>();
  weights.resident = WithBudget(weights, std::move(reservation));
  auto committed = layers_.Commit(
      caller, std::make_shared<const Weights>(std::move(weights)), binding);
  room_->Ring();  // it may leave
  return committed;
}

int64_t WeightStore::used_bytes(const Principal* caller) const {
  return ManagesAll(caller) ? reserved_bytes()
                            : accounts_.BytesOf(caller->client_id);
}

int64_t WeightStore::limit_bytes(const Principal* caller) const {
  const int64_t quota = ManagesAll(caller) ? 0 : caller->quota.weights_bytes;
  if (quota <= 0 || budget_bytes() <= 0) {
    return std::max(quota, budget_bytes());
  }
  return std::min(quota, budget_bytes());
}

}  // namespace qgemm
