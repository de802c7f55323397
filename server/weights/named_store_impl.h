// SPDX-License-Identifier: Apache-2.0
//
// Implementation of named_store.h, which includes it; changes are in
// named_store_changes.h.

#ifndef QGEMM_SERVER_WEIGHTS_NAMED_STORE_IMPL_H_
#define QGEMM_SERVER_WEIGHTS_NAMED_STORE_IMPL_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "server/weights/named_store.h"

namespace qgemm {

// Names that one part of a list looks at under one hold of the store's lock.
inline constexpr int kNamesALock = 1024;

template <typename Record>
NamedRecord<Record> NamedStore<Record>::Describe(const Principal* caller,
                                                 const Entry& entry,
                                                 absl::string_view after) {
  ListedNames listed = entry.names.ListFor(caller, after);
  return {entry.record, std::move(listed.names), listed.count};
}

template <typename Record>
auto NamedStore<Record>::FindEntry(const Principal* caller,
                                   absl::string_view name_or_id) const
    -> Entry* {
  // No look at names that the caller may not read: it would take another time
  // for those that are bound.
  if (Reads(caller, name_or_id)) {
    const auto name = by_name_.find(name_or_id);
    if (name != by_name_.end()) return name->second.entry;
  }
  return LooksLikeId(name_or_id)
             ? FindId(caller, absl::AsciiStrToLower(name_or_id))
             : nullptr;
}

template <typename Record>
auto NamedStore<Record>::FindId(const Principal* caller,
                                absl::string_view id) const -> Entry* {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return nullptr;
  Entry* const entry = found->second.get();
  return entry->names.IsVisibleTo(caller) ? entry : nullptr;
}

template <typename Record>
bool NamedStore<Record>::IsHeldBy(absl::string_view owner_id,
                                  absl::string_view id) const {
  MutexLock lock(&mutex_);
  const auto found = by_id_.find(id);
  return found != by_id_.end() && found->second->names.IsHeldBy(owner_id);
}

template <typename Record>
absl::Status NamedStore<Record>::CheckBinding(const Principal* caller,
                                              const NameBinding& binding,
                                              absl::string_view id) const {
  if (binding.name.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(CheckMayBind(caller, options_.noun, binding.name));
  const auto bound = by_name_.find(binding.name);
  const bool is_bound = bound != by_name_.end();
  const std::string bound_id = is_bound ? bound->second.entry->record->id : "";
  if (is_bound && bound_id == id) return absl::OkStatus();
  if (is_bound && !ManagesAll(caller) &&
      bound->second.owner->id != caller->client_id) {
    return OwnedByAnother(*caller, options_.noun, binding.name);
  }
  if (binding.create_only && is_bound) {
    return AlreadyBound(options_.noun, binding.name, bound_id);
  }
  if (!binding.if_match.empty() &&
      !absl::EqualsIgnoreCase(binding.if_match, bound_id)) {
    return NotMatched(options_.noun, binding.name, bound_id, binding.if_match);
  }
  return absl::OkStatus();
}

template <typename Record>
absl::Status NamedStore<Record>::CheckCounts(const Principal* caller,
                                             const NameBinding& binding,
                                             absl::string_view id) const {
  const Owner* const owner = FindOwner(caller);
  const auto bound = by_name_.find(binding.name);
  if (!binding.name.empty() && bound == by_name_.end()) {
    RETURN_IF_ERROR(
        CheckPlace(caller, owner == nullptr ? 0 : owner->names, NamePlaces()));
  }
  // A record that loses its last name by the binding makes room for another.
  const bool replaces = bound != by_name_.end() &&
                        bound->second.entry->names.all().size() == 1 &&
                        bound->second.entry->names.holders() == 1;
  // One that only others see takes a place too: an error must not tell of it.
  if (replaces || FindId(caller, id) != nullptr) return absl::OkStatus();
  return CheckPlace(caller, owner == nullptr ? 0 : owner->records,
                    RecordPlaces());
}

template <typename Record>
absl::Status NamedStore<Record>::CheckQuota(const Principal* caller,
                                            const NameBinding& binding,
                                            const Record& record) const {
  if (caller == nullptr || options_.accounts == nullptr) {
    return absl::OkStatus();
  }
  // A name counts for its owner, whoever binds it.
  const auto bound = by_name_.find(binding.name);
  if (bound != by_name_.end() && bound->second.owner->id != caller->client_id) {
    return absl::OkStatus();
  }
  const auto held = by_id_.find(record.id);
  return options_.accounts->Check(
      caller, ItemsOf(held == by_id_.end() ? record : *held->second->record));
}

template <typename Record>
auto NamedStore<Record>::EntryToUnload(const Principal* caller,
                                       absl::string_view name_or_id,
                                       absl::string_view if_match) const
    -> absl::StatusOr<Entry*> {
  Entry* const entry = FindEntry(caller, name_or_id);
  if (entry == nullptr) return UnknownRecord(options_.noun, name_or_id);
  RETURN_IF_ERROR(CheckUnload(caller, name_or_id, *entry));
  const std::string& id = entry->record->id;
  if (!if_match.empty() && !absl::EqualsIgnoreCase(if_match, id)) {
    return NotMatched(options_.noun, name_or_id, id, if_match);
  }
  return entry;
}

template <typename Record>
auto NamedStore<Record>::FindToUnload(const Principal* caller,
                                      absl::string_view name_or_id,
                                      absl::string_view if_match) const
    -> absl::StatusOr<Unloadable> {
  RETURN_IF_ERROR(ValidateIfMatch(if_match));
  MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(const Entry* const entry,
                   EntryToUnload(caller, name_or_id, if_match));
  return Unloadable{entry->record,
                    !ManagesAll(caller) && entry->names.holders() > 1};
}

template <typename Record>
absl::Status NamedStore<Record>::CheckUnload(const Principal* caller,
                                             absl::string_view name_or_id,
                                             const Entry& entry) const {
  if (ManagesAll(caller)) return absl::OkStatus();
  const auto name = by_name_.find(name_or_id);
  const bool is_own = name == by_name_.end()
                          ? entry.names.IsHeldBy(caller->client_id)
                          : name->second.owner->id == caller->client_id &&
                                MayBind(caller, name_or_id);
  return is_own ? absl::OkStatus()
                : OwnedByAnother(*caller, options_.noun, name_or_id);
}

template <typename Record>
Owner* NamedStore<Record>::OwnerOf(absl::string_view id) {
  const auto found = owners_.find(id);
  if (found != owners_.end()) return &found->second;
  Owner owner;
  owner.id = std::string(id);
  return &owners_.emplace(owner.id, std::move(owner)).first->second;
}

template <typename Record>
auto NamedStore<Record>::Add(const Pointer& record) -> Entry* {
  const auto [held, is_new] = by_id_.try_emplace(record->id);
  std::unique_ptr<Entry>& entry = held->second;
  if (!is_new) return entry.get();
  entry = std::make_unique<Entry>(record, held->first);
  entry->listed = list_.emplace(PlaceOfUnnamed(record->id), entry.get()).first;
  return entry.get();
}

template <typename Record>
auto NamedStore<Record>::Bind(const std::string& name,
                              ByteReservation reservation, Owner* owner,
                              Entry* entry) -> Pointer {
  if (name.empty()) {
    if (entry->names.AddUnnamed(owner)) BeginHold(*owner, *entry);
    return nullptr;
  }
  const auto [bound, is_new] = by_name_.try_emplace(name);
  if (is_new) {
    bound->second.reservation = std::move(reservation);
    bound->second.owner = owner;
  }
  Owner* const name_owner = bound->second.owner;
  Entry* const previous = std::exchange(bound->second.entry, entry);
  if (previous == entry) return nullptr;
  // First, as both might have the name's place in the list.
  Pointer dropped;
  if (previous != nullptr) {
    dropped = RemoveName(bound->first, name_owner, previous);
  }
  if (entry->names.Add(bound->first, name_owner)) {
    BeginHold(*name_owner, *entry);
  }
  Relist(entry);
  return dropped;
}

template <typename Record>
auto NamedStore<Record>::RemoveName(absl::string_view name, Owner* owner,
                                    Entry* entry) -> Pointer {
  if (entry->names.Remove(name, owner)) EndHold(*owner, *entry);
  return DropUnheld(entry);
}

template <typename Record>
auto NamedStore<Record>::RemoveHolder(Owner* owner, Entry* entry) -> Pointer {
  std::vector<absl::string_view> names;
  for (const absl::string_view name : entry->names.all()) {
    if (by_name_.find(name)->second.owner == owner) names.push_back(name);
  }
  if (names.empty()) {
    entry->names.RemoveUnnamed(owner);
    EndHold(*owner, *entry);
  }
  for (const absl::string_view name : names) {
    const auto bound = by_name_.find(name);
    if (entry->names.Remove(name, owner)) EndHold(*owner, *entry);
    by_name_.erase(bound);
  }
  return DropUnheld(entry);
}

template <typename Record>
auto NamedStore<Record>::RemoveAllHolders(Entry* entry) -> Pointer {
  std::vector<Owner*> owners;
  entry->names.VisitHolders(
      [&owners](Owner* owner) { owners.push_back(owner); });
  Pointer dropped;
  for (Owner* const owner : owners) dropped = RemoveHolder(owner, entry);
  return dropped;
}

template <typename Record>
auto NamedStore<Record>::DropUnheld(Entry* entry) -> Pointer {
  if (entry->names.holders() > 0) {
    Relist(entry);
    return nullptr;
  }
  list_.erase(entry->listed);
  const Pointer dropped = entry->record;
  by_id_.erase(by_id_.find(dropped->id));
  return dropped;
}

template <typename Record>
void NamedStore<Record>::BeginHold(const Owner& owner, const Entry& entry) {
  if (options_.accounts == nullptr || owner.id.empty()) return;
  options_.accounts->Add(owner.id, ItemsOf(*entry.record));
}

template <typename Record>
void NamedStore<Record>::EndHold(const Owner& owner, const Entry& entry) {
  if (options_.accounts == nullptr || owner.id.empty()) return;
  options_.accounts->Remove(owner.id, ItemsOf(*entry.record));
}

template <typename Record>
void NamedStore<Record>::Relist(Entry* entry) {
  std::string place = PlaceOf(*entry);
  if (place == entry->listed->first) return;
  list_.erase(entry->listed);
  entry->listed = list_.emplace(std::move(place), entry).first;
}

template <typename Record>
ListPage<Record> NamedStore<Record>::ListAll(absl::string_view after,
                                             int64_t max_records) const {
  ListPage<Record> page;
  auto next = list_.upper_bound(after);
  for (; next != list_.end() && max_records > 0; ++next, --max_records) {
    page.entries.push_back(
        {Describe(kAnybody, *next->second, ""), next->first});
  }
  page.is_last = next == list_.end();
  if (!page.is_last && !page.entries.empty()) {
    page.next = page.entries.back().place;
  }
  return page;
}

template <typename Record>
bool NamedStore<Record>::Part::Look(std::string place) {
  if (looks == kNamesALock ||
      static_cast<int64_t>(page.entries.size()) == max_records) {
    page.is_last = false;
    return false;
  }
  ++looks;
  page.next = std::move(place);
  return true;
}

// By names, and not by the list of all: a record's place in that may be a name
// that the caller may not read.
template <typename Record>
ListPage<Record> NamedStore<Record>::ListFor(const Principal* caller,
                                             PartOfList wanted) const {
  const std::vector<absl::string_view> prefixes =
      ReadablePrefixes(caller, wanted.prefix);
  Part part;
  part.max_records = wanted.max_records;
  absl::string_view after = wanted.after;
  const bool begins_unnamed = absl::ConsumePrefix(&after, "1");
  const absl::string_view last_name = absl::StripPrefix(after, "0");
  const absl::string_view last_id = begins_unnamed ? after : "";
  const bool is_named_done =
      begins_unnamed || AddNamed(caller, prefixes, last_name, &part);
  if (is_named_done && wanted.prefix.empty()) {
    AddUnnamed(*caller, prefixes, last_id, &part);
  }
  return std::move(part.page);
}

template <typename Record>
bool NamedStore<Record>::AddNamed(const Principal* caller,
                                  absl::Span<const absl::string_view> prefixes,
                                  absl::string_view last_name,
                                  Part* part) const {
  for (const absl::string_view prefix : prefixes) {
    auto name = prefix > last_name ? by_name_.lower_bound(prefix)
                                   : by_name_.upper_bound(last_name);
    for (; name != by_name_.end() && absl::StartsWith(name->first, prefix);
         ++name) {
      if (!part->Look(PlaceOf(name->first))) return false;
      const Entry& entry = *name->second.entry;
      if (entry.names.FirstWith(prefixes) != name->first) continue;
      part->Add(Describe(caller, entry, ""));
    }
  }
  return true;
}

template <typename Record>
bool NamedStore<Record>::AddUnnamed(
    const Principal& caller, absl::Span<const absl::string_view> prefixes,
    absl::string_view last_id, Part* part) const {
  const Owner* const owner = FindOwner(&caller);
  if (owner == nullptr) return true;
  const std::set<absl::string_view>& unnamed = owner->unnamed;
  for (auto id = unnamed.upper_bound(last_id); id != unnamed.end(); ++id) {
    if (!part->Look(PlaceOfUnnamed(*id))) return false;
    const Entry& entry = *by_id_.find(*id)->second;
    if (!entry.names.FirstWith(prefixes).empty()) continue;
    part->Add(Describe(&caller, entry, ""));
  }
  return true;
}

}  // namespace qgemm

#endif  // QGEMM_SERVER_WEIGHTS_NAMED_STORE_IMPL_H_
