// SPDX-License-Identifier: Apache-2.0
//
// Replaced records are released after the lock: the last reference frees
// memory.

#include "server/weights/weight_store.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"

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
  ByteReservation reservation;
  std::shared_ptr<const ResidentWeights> resident;
};

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

// Returns a pointer to the layer whose last copy gives back its reservation.
std::shared_ptr<const ResidentWeights> WithBudget(
    std::shared_ptr<const ResidentWeights> resident,
    ByteReservation reservation) {
  auto owner = std::make_shared<BudgetedWeights>();
  const ResidentWeights* const layer = resident.get();
  owner->reservation = std::move(reservation);
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

WeightStore::WeightStore(int64_t budget_bytes, ServerMetrics* metrics)
    : metrics_(metrics),
      budget_bytes_(budget_bytes),
      budget_(ToBudgetOptions(budget_bytes, metrics)) {
  if (metrics_ != nullptr) metrics_->SetWeightsBudget(budget_bytes);
}

WeightStore::~WeightStore() = default;

std::shared_ptr<const Weights> WeightStore::Commit(Weights weights,
                                                   ByteReservation reservation,
                                                   const std::string& name) {
  CHECK(weights.resident != nullptr);
  weights.resident =
      WithBudget(std::move(weights.resident), std::move(reservation));
  auto offered = std::make_shared<const Weights>(std::move(weights));
  Record replaced;  // released after the lock
  MutexLock lock(&mutex_);
  const Record held = by_id_.emplace(offered->id, offered).first->second;
  if (!name.empty()) replaced = Bind(name, held->id);
  CountWeights();
  return held;
}

std::shared_ptr<const Weights> WeightStore::BindIfHeld(
    const std::string& id, const std::string& name) {
  Record replaced;  // released after the lock
  MutexLock lock(&mutex_);
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return nullptr;
  const Record held = found->second;
  if (!name.empty()) replaced = Bind(name, id);
  CountWeights();
  return held;
}

absl::StatusOr<std::shared_ptr<const Weights>> WeightStore::Find(
    absl::string_view name_or_id) const {
  MutexLock lock(&mutex_);
  const auto found = by_id_.find(IdOf(name_or_id));
  if (found == by_id_.end()) return UnknownWeights(name_or_id);
  return found->second;
}

absl::StatusOr<NamedWeights> WeightStore::Get(
    absl::string_view name_or_id) const {
  MutexLock lock(&mutex_);
  const auto found = by_id_.find(IdOf(name_or_id));
  if (found == by_id_.end()) return UnknownWeights(name_or_id);
  return NamedWeights{found->second, NamesOf(found->first)};
}

std::vector<NamedWeights> WeightStore::List() const {
  std::vector<NamedWeights> listings;
  {
    MutexLock lock(&mutex_);
    std::map<std::string, std::vector<std::string>> names_of;
    for (const auto& [name, id] : id_of_name_) names_of[id].push_back(name);
    for (const auto& [id, record] : by_id_) {
      listings.push_back({record, std::move(names_of[id])});
    }
  }
  // Stable: records of equal rank stay in the order of their ids.
  std::stable_sort(listings.begin(), listings.end(),
                   [](const NamedWeights& a, const NamedWeights& b) {
                     if (a.names.empty() || b.names.empty()) {
                       return a.names.size() > b.names.size();
                     }
                     return a.names.front() < b.names.front();
                   });
  return listings;
}

absl::StatusOr<bool> WeightStore::Unload(absl::string_view name_or_id) {
  Record dropped;  // released after the lock
  MutexLock lock(&mutex_);
  const std::string id = IdOf(name_or_id);
  if (by_id_.find(id) == by_id_.end()) return UnknownWeights(name_or_id);
  const auto name = id_of_name_.find(name_or_id);
  if (name != id_of_name_.end()) {
    id_of_name_.erase(name);
    dropped = DropIfNameless(id);
  } else {
    dropped = Drop(id);
  }
  CountWeights();
  return dropped != nullptr;
}

std::string WeightStore::IdOf(absl::string_view name_or_id) const {
  const auto name = id_of_name_.find(name_or_id);
  if (name != id_of_name_.end()) return name->second;
  return LooksLikeId(name_or_id) ? absl::AsciiStrToLower(name_or_id) : "";
}

std::vector<std::string> WeightStore::NamesOf(const std::string& id) const {
  std::vector<std::string> names;
  for (const auto& [name, bound_id] : id_of_name_) {
    if (bound_id == id) names.push_back(name);
  }
  return names;
}

WeightStore::Record WeightStore::Bind(const std::string& name,
                                      const std::string& id) {
  std::string& bound_id = id_of_name_[name];
  const std::string previous_id = std::exchange(bound_id, id);
  if (previous_id.empty()) return nullptr;
  return DropIfNameless(previous_id);
}

WeightStore::Record WeightStore::DropIfNameless(const std::string& id) {
  return NamesOf(id).empty() ? Drop(id) : nullptr;
}

WeightStore::Record WeightStore::Drop(const std::string& id) {
  for (auto name = id_of_name_.begin(); name != id_of_name_.end();) {
    name = name->second == id ? id_of_name_.erase(name) : std::next(name);
  }
  const auto found = by_id_.find(id);
  const Record dropped = found->second;
  by_id_.erase(found);
  return dropped;
}

void WeightStore::CountWeights() {
  if (metrics_ != nullptr) {
    metrics_->SetLayerCounts(static_cast<int64_t>(by_id_.size()),
                             static_cast<int64_t>(id_of_name_.size()));
  }
}

}  // namespace qgemm
