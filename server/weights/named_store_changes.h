// SPDX-License-Identifier: Apache-2.0
//
// Implementation of named_store.h, which includes it: changes of what is held
// by whom. Each is checked, then kept by the journal, then made.

#ifndef QGEMM_SERVER_WEIGHTS_NAMED_STORE_CHANGES_H_
#define QGEMM_SERVER_WEIGHTS_NAMED_STORE_CHANGES_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "server/weights/named_store.h"

namespace qgemm {

template <typename Record>
auto NamedStore<Record>::Commit(const Principal* caller, const Pointer& record,
                                const NameBinding& binding)
    -> absl::StatusOr<Pointer> {
  Pointer replaced;  // released after the locks
  MutexLock change(&change_mutex_);
  ASSIGN_OR_RETURN(Decided decided, Decide(caller, record, binding));
  MutexLock lock(&mutex_);
  return BindDecided(std::move(decided), &replaced);
}

template <typename Record>
auto NamedStore<Record>::BindIfHeld(const Principal* caller,
                                    absl::string_view id,
                                    const NameBinding& binding)
    -> absl::StatusOr<Pointer> {
  Pointer replaced;  // released after the locks
  Pointer held;
  MutexLock change(&change_mutex_);
  {
    MutexLock lock(&mutex_);
    const Entry* const entry = FindId(caller, id);
    if (entry == nullptr) return nullptr;
    held = entry->record;
  }
  ASSIGN_OR_RETURN(Decided decided, Decide(caller, held, binding));
  MutexLock lock(&mutex_);
  return BindDecided(std::move(decided), &replaced);
}

template <typename Record>
auto NamedStore<Record>::Decide(const Principal* caller, const Pointer& record,
                                const NameBinding& binding)
    -> absl::StatusOr<Decided> {
  Decided decided;
  decided.record = &record;
  decided.name = &binding.name;
  std::vector<NameChange> changes;
  {
    MutexLock lock(&mutex_);
    RETURN_IF_ERROR(CheckBinding(caller, binding, record->id));
    RETURN_IF_ERROR(CheckCounts(caller, binding, record->id));
    RETURN_IF_ERROR(CheckQuota(caller, binding, *record));
    ASSIGN_OR_RETURN(decided.reservation, ReserveName(caller, binding.name));
    decided.owner = OwnerOf(OwnerIdOf(caller));
    changes = ChangesOf(record->id, binding.name, *decided.owner);
  }
  RETURN_IF_ERROR(Journal(std::move(changes)));
  return decided;
}

template <typename Record>
auto NamedStore<Record>::BindDecided(Decided decided, Pointer* replaced)
    -> Pointer {
  Entry* const entry = Add(*decided.record);
  *replaced =
      Bind(*decided.name, std::move(decided.reservation), decided.owner, entry);
  Changed();
  return entry->record;
}

template <typename Record>
std::vector<NameChange> NamedStore<Record>::ChangesOf(
    const std::string& id, const std::string& name, const Owner& owner) const {
  if (name.empty()) {
    const auto held = by_id_.find(id);
    if (held != by_id_.end() && held->second->names.IsHeldBy(owner.id)) {
      return {};
    }
    return {{NameChange::Kind::kHold, "", owner.id, id, 0}};
  }
  const auto bound = by_name_.find(name);
  if (bound == by_name_.end()) {
    return {{NameChange::Kind::kBind, name, owner.id, id, 0}};
  }
  if (bound->second.entry->record->id == id) return {};
  return {{NameChange::Kind::kBind, name, bound->second.owner->id, id, 0}};
}

template <typename Record>
std::vector<NameChange> NamedStore<Record>::ChangesOfUnload(
    const Principal* caller, absl::string_view name_or_id,
    const Entry& entry) const {
  const auto drop = [](absl::string_view name) {
    return NameChange{NameChange::Kind::kDrop, std::string(name), "", "", 0};
  };
  if (by_name_.find(name_or_id) != by_name_.end()) return {drop(name_or_id)};
  std::vector<NameChange> changes;
  const auto is_dropped = [caller](const Owner& owner) {
    return ManagesAll(caller) || owner.id == OwnerIdOf(caller);
  };
  for (const absl::string_view name : entry.names.all()) {
    if (is_dropped(*by_name_.find(name)->second.owner)) {
      changes.push_back(drop(name));
    }
  }
  const std::string& id = entry.record->id;
  entry.names.VisitHolders([&](const Owner* owner) {
    if (is_dropped(*owner) && owner->unnamed.count(id) != 0) {
      changes.push_back({NameChange::Kind::kRelease, "", owner->id, id, 0});
    }
  });
  return changes;
}

template <typename Record>
absl::Status NamedStore<Record>::Restore(const Pointer& record,
                                         const std::string& name,
                                         absl::string_view owner_id) {
  Pointer replaced;  // none
  MutexLock change(&change_mutex_);
  MutexLock lock(&mutex_);
  Decided decided;
  decided.record = &record;
  decided.name = &name;
  ASSIGN_OR_RETURN(decided.reservation, ReserveName(kAnybody, name));
  decided.owner = OwnerOf(owner_id);
  BindDecided(std::move(decided), &replaced);
  return absl::OkStatus();
}

template <typename Record>
bool NamedStore<Record>::Replace(const Pointer& held, const Pointer& record) {
  MutexLock lock(&mutex_);
  const auto found = by_id_.find(record->id);
  if (found == by_id_.end() || found->second->record != held) return false;
  Entry& entry = *found->second;
  std::vector<const Owner*> holders;
  entry.names.VisitHolders(
      [&holders](const Owner* owner) { holders.push_back(owner); });
  for (const Owner* const owner : holders) EndHold(*owner, entry);
  entry.record = record;
  for (const Owner* const owner : holders) BeginHold(*owner, entry);
  return true;
}

template <typename Record>
absl::StatusOr<bool> NamedStore<Record>::Unload(const Principal* caller,
                                                absl::string_view name_or_id,
                                                absl::string_view if_match) {
  RETURN_IF_ERROR(ValidateIfMatch(if_match));
  Pointer dropped;  // released after the locks
  Entry* entry = nullptr;
  std::vector<NameChange> changes;
  MutexLock change(&change_mutex_);
  {
    MutexLock lock(&mutex_);
    ASSIGN_OR_RETURN(entry, EntryToUnload(caller, name_or_id, if_match));
    changes = ChangesOfUnload(caller, name_or_id, *entry);
  }
  RETURN_IF_ERROR(Journal(std::move(changes)));
  MutexLock lock(&mutex_);
  const auto name = by_name_.find(name_or_id);
  if (name != by_name_.end()) {
    dropped = RemoveName(name->first, name->second.owner, entry);
    by_name_.erase(name);
  } else if (ManagesAll(caller)) {
    dropped = RemoveAllHolders(entry);
  } else {
    dropped = RemoveHolder(OwnerOf(OwnerIdOf(caller)), entry);
  }
  Changed();
  return dropped != nullptr || !entry->names.IsVisibleTo(caller);
}

template <typename Record>
absl::StatusOr<DroppedNames> NamedStore<Record>::UnloadPrefix(
    const Principal* caller, absl::string_view prefix, int64_t max_names) {
  if (prefix.empty()) {
    return absl::InvalidArgumentError(
        "prefix is empty; give the begin of the names to drop");
  }
  RETURN_IF_ERROR(CheckMayBind(caller, options_.noun, prefix));
  std::vector<Pointer> dropped;  // released after the locks
  std::vector<NameChange> changes;
  DroppedNames result;
  MutexLock change(&change_mutex_);
  {
    MutexLock lock(&mutex_);
    for (auto name = by_name_.lower_bound(prefix);
         name != by_name_.end() && absl::StartsWith(name->first, prefix);
         ++name) {
      if (!ManagesAll(caller) && name->second.owner->id != caller->client_id) {
        continue;
      }
      result.has_more = static_cast<int64_t>(changes.size()) == max_names;
      if (result.has_more) break;
      changes.push_back({NameChange::Kind::kDrop, name->first, "", "", 0});
    }
  }
  if (changes.empty()) return result;
  RETURN_IF_ERROR(Journal(changes));
  MutexLock lock(&mutex_);
  for (const NameChange& drop : changes) {
    const auto name = by_name_.find(drop.name);
    dropped.push_back(
        RemoveName(name->first, name->second.owner, name->second.entry));
    by_name_.erase(name);
    ++result.names;
  }
  Changed();
  return result;
}

}  // namespace qgemm

#endif  // QGEMM_SERVER_WEIGHTS_NAMED_STORE_CHANGES_H_
