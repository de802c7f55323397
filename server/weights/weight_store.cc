// SPDX-License-Identifier: Apache-2.0
//
// Replaced records are released after the lock: the last reference frees
// memory.

#include "server/weights/weight_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace qgemm {
namespace {

constexpr size_t kMaxNameLength = 128;
constexpr size_t kIdLength = 64;

bool LooksLikeId(absl::string_view text) {
  return text.size() == kIdLength &&
         std::all_of(text.begin(), text.end(), absl::ascii_isxdigit);
}

bool IsNameCharacter(unsigned char c) {
  return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '/' || c == '-';
}

// Returns a caller's text, safe to print and not too long.
std::string Quoted(absl::string_view text) {
  const bool is_long = text.size() > kMaxNameLength;
  return absl::StrCat("\"", absl::CHexEscape(text.substr(0, kMaxNameLength)),
                      is_long ? "\"…" : "\"");
}

absl::Status UnknownWeights(absl::string_view name_or_id) {
  return absl::NotFoundError(
      absl::StrCat("weights ", Quoted(name_or_id), ": no such ",
                   LooksLikeId(name_or_id) ? "id" : "name", " on this server"));
}

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

absl::Status ValidateIfMatch(absl::string_view if_match) {
  if (if_match.empty() || LooksLikeId(if_match)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("if_match = ", Quoted(if_match), ": an id has ", kIdLength,
                   " hexadecimal digits"));
}

// The place in the list of weights with these names. Those without any come
// last, as '1' comes after '0'.
std::string PlaceOf(const std::string& id,
                    const std::set<absl::string_view>& names) {
  return names.empty() ? absl::StrCat("1", id)
                       : absl::StrCat("0", *names.begin());
}

NamedWeights Describe(std::shared_ptr<const Weights> weights,
                      const std::set<absl::string_view>& names,
                      absl::string_view after) {
  NamedWeights described{std::move(weights), {}, 0};
  described.name_count = static_cast<int64_t>(names.size());
  for (auto name = names.upper_bound(after);
       name != names.end() && described.names.size() < kMaxListedNames;
       ++name) {
    described.names.emplace_back(*name);
  }
  return described;
}

// `bound_id` is empty for a name that is bound to nothing.
absl::Status NotMatched(absl::string_view name, absl::string_view bound_id,
                        absl::string_view if_match) {
  return absl::FailedPreconditionError(absl::StrCat(
      "if_match = ", Quoted(if_match), ", but ", Quoted(name), " is bound to ",
      bound_id.empty() ? "nothing" : absl::StrCat("weights ", bound_id),
      "; look at what is bound to it and decide again"));
}

bool IsFull(size_t count, int64_t limit) {
  return static_cast<int64_t>(count) >= limit;
}

absl::Status TooMany(absl::string_view noun, int64_t limit,
                     absl::string_view flag) {
  return absl::ResourceExhaustedError(
      absl::StrCat(limit, " ", noun, " are held, which is the limit (", flag,
                   "); unload some or raise it"));
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

absl::Status ValidateWeightsName(absl::string_view name) {
  if (name.empty() || name.size() > kMaxNameLength) {
    return absl::InvalidArgumentError(
        absl::StrCat("name ", Quoted(name), ": ", name.size(),
                     " characters; a name has 1 to ", kMaxNameLength));
  }
  for (size_t i = 0; i < name.size(); ++i) {
    if (!IsNameCharacter(static_cast<unsigned char>(name[i]))) {
      return absl::InvalidArgumentError(
          absl::StrCat("name ", Quoted(name), ": character ", i,
                       " is not one of A-Z a-z 0-9 . _ / -"));
    }
  }
  if (LooksLikeId(name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("name ", Quoted(name), ": ", kIdLength,
                     " hexadecimal digits are an id, not a name"));
  }
  return absl::OkStatus();
}

absl::Status Validate(const NameBinding& binding) {
  const bool is_conditional = binding.create_only || !binding.if_match.empty();
  if (binding.name.empty()) {
    if (!is_conditional) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "create_only and if_match are conditions on a name; set name too");
  }
  if (binding.create_only && !binding.if_match.empty()) {
    return absl::InvalidArgumentError(
        "create_only and if_match contradict each other; set one of them");
  }
  RETURN_IF_ERROR(ValidateIfMatch(binding.if_match));
  return ValidateWeightsName(binding.name);
}

WeightStore::WeightStore(const StoreLimits& limits, ServerMetrics* metrics)
    : metrics_(metrics),
      limits_(limits),
      budget_(ToBudgetOptions(limits.budget_bytes, metrics)) {
  if (metrics_ != nullptr) metrics_->SetWeightsBudget(limits.budget_bytes);
}

WeightStore::~WeightStore() = default;

absl::Status WeightStore::CheckCommit(const NameBinding& binding,
                                      const std::string& id) const {
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(CheckBinding(binding, id));
  return CheckCounts(binding, id);
}

absl::StatusOr<std::shared_ptr<const Weights>> WeightStore::Commit(
    Weights weights, ByteReservation reservation, const NameBinding& binding) {
  CHECK(weights.resident != nullptr);
  weights.traffic = TrafficOf(weights.id, binding.name, metrics_);
  weights.resident = WithBudget(std::move(weights.resident),
                                std::move(reservation), weights.traffic);
  auto offered = std::make_shared<const Weights>(std::move(weights));
  Record replaced;  // released after the lock
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(CheckBinding(binding, offered->id));
  RETURN_IF_ERROR(CheckCounts(binding, offered->id));
  ASSIGN_OR_RETURN(ByteReservation name_reservation, ReserveName(binding.name));
  Layer* const layer = Add(offered);
  if (!binding.name.empty()) {
    replaced = Bind(binding.name, std::move(name_reservation), layer);
  }
  CountWeights();
  return layer->weights;
}

absl::StatusOr<std::shared_ptr<const Weights>> WeightStore::BindIfHeld(
    const std::string& id, const NameBinding& binding) {
  Record replaced;  // released after the lock
  MutexLock lock(&mutex_);
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return nullptr;
  Layer* const layer = found->second.get();
  if (binding.name.empty()) return layer->weights;
  RETURN_IF_ERROR(CheckBinding(binding, id));
  RETURN_IF_ERROR(CheckCounts(binding, id));
  ASSIGN_OR_RETURN(ByteReservation reservation, ReserveName(binding.name));
  replaced = Bind(binding.name, std::move(reservation), layer);
  CountWeights();
  return layer->weights;
}

absl::StatusOr<std::shared_ptr<const Weights>> WeightStore::Find(
    absl::string_view name_or_id) const {
  MutexLock lock(&mutex_);
  const Layer* const layer = FindLayer(name_or_id);
  if (layer == nullptr) return UnknownWeights(name_or_id);
  return layer->weights;
}

absl::StatusOr<NamedWeights> WeightStore::Get(
    absl::string_view name_or_id, absl::string_view names_after) const {
  MutexLock lock(&mutex_);
  const Layer* const layer = FindLayer(name_or_id);
  if (layer == nullptr) return UnknownWeights(name_or_id);
  return Describe(layer->weights, layer->names, names_after);
}

WeightsPage WeightStore::List(absl::string_view after,
                              int64_t max_layers) const {
  WeightsPage page;
  MutexLock lock(&mutex_);
  auto next = list_.upper_bound(after);
  for (; next != list_.end() && max_layers > 0; ++next, --max_layers) {
    const Layer& layer = *next->second;
    page.entries.push_back(
        {Describe(layer.weights, layer.names, ""), next->first});
  }
  page.is_last = next == list_.end();
  return page;
}

absl::StatusOr<bool> WeightStore::Unload(absl::string_view name_or_id,
                                         absl::string_view if_match) {
  RETURN_IF_ERROR(ValidateIfMatch(if_match));
  Record dropped;  // released after the lock
  MutexLock lock(&mutex_);
  Layer* const layer = FindLayer(name_or_id);
  if (layer == nullptr) return UnknownWeights(name_or_id);
  if (!if_match.empty() &&
      !absl::EqualsIgnoreCase(if_match, layer->weights->id)) {
    return NotMatched(name_or_id, layer->weights->id, if_match);
  }
  const auto name = by_name_.find(name_or_id);
  if (name != by_name_.end()) {
    dropped = RemoveName(name->first, layer);
    by_name_.erase(name);
  } else {
    dropped = Drop(layer);
  }
  CountWeights();
  return dropped != nullptr;
}

WeightStore::Layer* WeightStore::FindLayer(absl::string_view name_or_id) const {
  const auto name = by_name_.find(name_or_id);
  if (name != by_name_.end()) return name->second.layer;
  if (!LooksLikeId(name_or_id)) return nullptr;
  const auto found = by_id_.find(absl::AsciiStrToLower(name_or_id));
  return found == by_id_.end() ? nullptr : found->second.get();
}

absl::Status WeightStore::CheckBinding(const NameBinding& binding,
                                       absl::string_view id) const {
  const auto bound = by_name_.find(binding.name);
  const std::string bound_id =
      bound == by_name_.end() ? "" : bound->second.layer->weights->id;
  if (!bound_id.empty() && bound_id == id) return absl::OkStatus();
  if (binding.create_only && !bound_id.empty()) {
    return absl::AlreadyExistsError(absl::StrCat(
        "create_only: name ", Quoted(binding.name), " is bound to weights ",
        bound_id, "; choose another name, or send if_match with that id"));
  }
  if (!binding.if_match.empty() &&
      !absl::EqualsIgnoreCase(binding.if_match, bound_id)) {
    return NotMatched(binding.name, bound_id, binding.if_match);
  }
  return absl::OkStatus();
}

absl::Status WeightStore::CheckCounts(const NameBinding& binding,
                                      const std::string& id) const {
  const auto bound = by_name_.find(binding.name);
  const bool is_new_name = !binding.name.empty() && bound == by_name_.end();
  if (is_new_name && IsFull(by_name_.size(), limits_.max_names)) {
    return TooMany("names", limits_.max_names, "--max_names");
  }
  // A layer that loses its last name by the binding makes room for another.
  const bool replaces =
      bound != by_name_.end() && bound->second.layer->names.size() == 1;
  if (by_id_.count(id) == 0 && !replaces &&
      IsFull(by_id_.size(), limits_.max_layers)) {
    return TooMany("layers", limits_.max_layers, "--max_layers");
  }
  return absl::OkStatus();
}

absl::StatusOr<ByteReservation> WeightStore::ReserveName(
    const std::string& name) {
  if (name.empty() || by_name_.count(name) != 0) return ByteReservation();
  return budget_.Reserve(kNameRecordBytes);
}

WeightStore::Layer* WeightStore::Add(Record weights) {
  std::unique_ptr<Layer>& layer = by_id_[weights->id];
  if (layer != nullptr) return layer.get();
  layer = std::make_unique<Layer>();
  layer->weights = std::move(weights);
  layer->listed =
      list_.emplace(PlaceOf(layer->weights->id, {}), layer.get()).first;
  return layer.get();
}

WeightStore::Record WeightStore::Bind(const std::string& name,
                                      ByteReservation reservation,
                                      Layer* layer) {
  const auto [entry, is_new] = by_name_.try_emplace(name);
  if (is_new) entry->second.reservation = std::move(reservation);
  Layer* const previous = std::exchange(entry->second.layer, layer);
  if (previous == layer) return nullptr;
  // First, as both might have the name's place in the list.
  Record dropped;
  if (previous != nullptr) dropped = RemoveName(entry->first, previous);
  layer->names.insert(entry->first);
  Relist(layer);
  return dropped;
}

WeightStore::Record WeightStore::RemoveName(absl::string_view name,
                                            Layer* layer) {
  layer->names.erase(name);
  if (layer->names.empty()) return Drop(layer);
  Relist(layer);
  return nullptr;
}

WeightStore::Record WeightStore::Drop(Layer* layer) {
  for (const absl::string_view name : layer->names) {
    by_name_.erase(by_name_.find(name));
  }
  list_.erase(layer->listed);
  const Record dropped = layer->weights;
  by_id_.erase(dropped->id);
  return dropped;
}

void WeightStore::Relist(Layer* layer) {
  std::string place = PlaceOf(layer->weights->id, layer->names);
  if (place == layer->listed->first) return;
  list_.erase(layer->listed);
  layer->listed = list_.emplace(std::move(place), layer).first;
}

void WeightStore::CountWeights() {
  if (metrics_ != nullptr) {
    metrics_->SetLayerCounts(static_cast<int64_t>(by_id_.size()),
                             static_cast<int64_t>(by_name_.size()));
  }
}

}  // namespace qgemm
