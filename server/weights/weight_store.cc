// SPDX-License-Identifier: Apache-2.0

#include "server/weights/weight_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace qgemm {
namespace {

// A layer and its share of the budget, which is given back after the memory.
struct BudgetedWeights {
  ~BudgetedWeights() {
    if (traffic != nullptr) traffic->AddBytes(-resident->resident_bytes());
  }

  ByteReservation reservation;
  std::shared_ptr<Traffic> traffic;  // null: not counted
  std::shared_ptr<const ResidentWeights> resident;
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

ByteBudgetOptions ToBudgetOptions(int64_t budget_bytes,
                                  ServerMetrics* metrics) {
  ByteBudgetOptions options;
  options.name = "weights budget";
  if (budget_bytes > 0) options.limit_bytes = budget_bytes;
  options.advice = "unload weights or raise --weights_budget_bytes";
  if (metrics != nullptr) {
    options.on_change = [metrics](int64_t used_bytes) {
      metrics->SetWeightsBytes(used_bytes);
    };
  }
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

NamedStoreOptions ToNamedStoreOptions(const StoreLimits& limits,
                                      ByteBudget* budget,
                                      OwnerAccounts* accounts,
                                      ServerMetrics* metrics) {
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
  if (metrics != nullptr) {
    options.on_change = [metrics](int64_t layers, int64_t names) {
      metrics->SetLayerCounts(layers, names);
    };
  }
  return options;
}

// Returns a pointer to the layer whose last copy gives back its reservation.
std::shared_ptr<const ResidentWeights> WithBudget(
    std::shared_ptr<const ResidentWeights> resident,
    ByteReservation reservation, std::shared_ptr<Traffic> traffic) {
  auto owner = std::make_shared<BudgetedWeights>();
  const ResidentWeights* const layer = resident.get();
  if (traffic != nullptr) traffic->AddBytes(layer->resident_bytes());
  owner->reservation = std::move(reservation);
  owner->traffic = std::move(traffic);
  owner->resident = std::move(resident);
  return std::shared_ptr<const ResidentWeights>(owner, layer);
}

}  // namespace

std::vector<HeldItem> ItemsOf(const Weights& weights) {
  return {{weights.resident.get(),
           weights.resident->resident_bytes() + kLayerRecordBytes}};
}

WeightStore::WeightStore(const StoreLimits& limits, ServerMetrics* metrics)
    : metrics_(metrics),
      limits_(limits),
      budget_(ToBudgetOptions(limits.budget_bytes, metrics)),
      layers_(ToNamedStoreOptions(limits, &budget_, &accounts_, metrics)) {
  if (metrics_ != nullptr) metrics_->SetWeightsBudget(limits.budget_bytes);
}

absl::StatusOr<ByteReservation> WeightStore::Reserve(const Principal* caller,
                                                     int64_t bytes) {
  return ReserveFor(caller, bytes, &budget_);
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
  weights.resident = WithBudget(std::move(weights.resident),
                                std::move(reservation), weights.traffic);
  return layers_.Commit(
      caller, std::make_shared<const Weights>(std::move(weights)), binding);
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
