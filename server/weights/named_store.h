// SPDX-License-Identifier: Apache-2.0
//
// Records that the server holds (weights, programs), by id and by name, and
// their list. What a record is, its memory and its metrics are the owner's.

#ifndef QGEMM_SERVER_WEIGHTS_NAMED_STORE_H_
#define QGEMM_SERVER_WEIGHTS_NAMED_STORE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/byte_budget.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "server/weights/name_binding.h"

namespace qgemm {

// Names of a record that a listing has at most.
inline constexpr size_t kMaxListedNames = 100;

// A record and the names bound to it at one moment.
template <typename Record>
struct NamedRecord {
  std::shared_ptr<const Record> record;
  std::vector<std::string> names;  // sorted; the first kMaxListedNames
  int64_t name_count = 0;          // of all
};

// A part of all records, in the order of the list.
template <typename Record>
struct ListPage {
  struct Entry {
    NamedRecord<Record> named;
    std::string place;  // in the list, as List takes it
  };
  std::vector<Entry> entries;
  bool is_last = true;
};

// Bounds and words of a store, and the accounts of its owner. Both functions
// run under the store's lock: they must be brief and must not use the store.
struct NamedStoreOptions {
  std::string noun;    // of a record, in errors: "weights"
  std::string plural;  // of what is counted: "layers"
  int64_t max_records = 0;
  std::string records_flag;  // "--max_layers"
  int64_t max_names = 0;
  std::string names_flag;
  // Takes the budget of one more name.
  std::function<absl::StatusOr<ByteReservation>()> reserve_name;
  // Receives the numbers of records and names after each change. May be null.
  std::function<void(int64_t records, int64_t names)> on_change;
};

// Thread-safe. A Record is immutable and has an `id` of 64 lower-case
// hexadecimal digits. Binding and dropping names is atomic: a reader sees the
// old record or the new one. A record with a name is held until its last name
// is dropped or bound to another; one without, until it is unloaded by id.
// References that are dropped go after the lock: the last one frees memory.
template <typename Record>
class NamedStore {
 public:
  using Pointer = std::shared_ptr<const Record>;

  explicit NamedStore(NamedStoreOptions options)
      : options_(std::move(options)) {}

  // Returns OK if Commit would bind now. `id` is empty if it is not known yet.
  // Errors: Commit's, but for the budget.
  absl::Status CheckCommit(const NameBinding& binding,
                           absl::string_view id) const {
    MutexLock lock(&mutex_);
    RETURN_IF_ERROR(CheckBinding(binding, id));
    return CheckCounts(binding, id);
  }

  // Makes the record visible, binds the name, and returns it. If the id is held
  // already, that record stays and is returned. On an error nothing changes.
  // Errors: ALREADY_EXISTS (create_only), FAILED_PRECONDITION (if_match),
  // RESOURCE_EXHAUSTED (records, names, budget).
  absl::StatusOr<Pointer> Commit(const Pointer& record,
                                 const NameBinding& binding);

  // Binds the name to the record of `id` and returns it; null if `id` is not
  // held. Errors: Commit's.
  absl::StatusOr<Pointer> BindIfHeld(absl::string_view id,
                                     const NameBinding& binding);

  // Look a record up by name or id. NOT_FOUND names the argument.
  absl::StatusOr<Pointer> Find(absl::string_view name_or_id) const {
    MutexLock lock(&mutex_);
    const Entry* const entry = FindEntry(name_or_id);
    if (entry == nullptr) return UnknownRecord(options_.noun, name_or_id);
    return entry->record;
  }
  // With its names that come after `names_after`, in the order of bytes.
  absl::StatusOr<NamedRecord<Record>> Get(absl::string_view name_or_id,
                                          absl::string_view names_after) const {
    MutexLock lock(&mutex_);
    const Entry* const entry = FindEntry(name_or_id);
    if (entry == nullptr) return UnknownRecord(options_.noun, name_or_id);
    return Describe(*entry, names_after);
  }

  // Returns up to `max_records` records by first name, then id, those without a
  // name last, from the one behind the place `after` on (empty: the first). A
  // record whose first name changes moves in the list; all others are in
  // exactly one of the pages that follow on one another.
  ListPage<Record> List(absl::string_view after, int64_t max_records) const;

  // Drops a name, and the record with its last name; for an id, drops the
  // record and all its names. Returns true if the record is no longer held.
  // Errors: NOT_FOUND; FAILED_PRECONDITION if the record has another id than
  // `if_match`, unless that is empty; INVALID_ARGUMENT if that is no id.
  absl::StatusOr<bool> Unload(absl::string_view name_or_id,
                              absl::string_view if_match);

  int64_t record_count() const {
    MutexLock lock(&mutex_);
    return static_cast<int64_t>(by_id_.size());
  }

 private:
  struct Entry;

  // A key is an entry's place in the list.
  using ListIndex = std::map<std::string, Entry*, std::less<>>;

  struct Entry {
    Pointer record;
    std::set<absl::string_view> names;  // keys of by_name_
    typename ListIndex::iterator listed;
  };

  struct Name {
    Entry* entry = nullptr;
    ByteReservation reservation;
  };

  // The place in the list of a record with these names. Those without any come
  // last, as '1' comes after '0'.
  static std::string PlaceOf(const std::string& id,
                             const std::set<absl::string_view>& names) {
    return names.empty() ? absl::StrCat("1", id)
                         : absl::StrCat("0", *names.begin());
  }
  static NamedRecord<Record> Describe(const Entry& entry,
                                      absl::string_view after);

  // Null for an unknown record.
  Entry* FindEntry(absl::string_view name_or_id) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckBinding(const NameBinding& binding,
                            absl::string_view id) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Errors: too many records or names after the binding of `id`.
  absl::Status CheckCounts(const NameBinding& binding,
                           absl::string_view id) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes the budget of a name that is not bound yet; an empty reservation for
  // one that is.
  absl::StatusOr<ByteReservation> ReserveName(const std::string& name)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (name.empty() || by_name_.count(name) != 0) return ByteReservation();
    return options_.reserve_name();
  }
  Entry* Add(Pointer record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Binds `name` unless it is empty; returns the record that lost its last name
  // by it.
  Pointer Bind(const std::string& name, ByteReservation reservation,
               Entry* entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes a name from its entry, and removes that with its last one.
  Pointer RemoveName(absl::string_view name, Entry* entry)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Pointer Drop(Entry* entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Moves the entry to its place in the list.
  void Relist(Entry* entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Changed() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (options_.on_change == nullptr) return;
    options_.on_change(static_cast<int64_t>(by_id_.size()),
                       static_cast<int64_t>(by_name_.size()));
  }

  const NamedStoreOptions options_;
  mutable Mutex mutex_;
  std::map<std::string, std::unique_ptr<Entry>, std::less<>> by_id_
      ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Name, std::less<>> by_name_ ABSL_GUARDED_BY(mutex_);
  ListIndex list_ ABSL_GUARDED_BY(mutex_);
};

// The rest of this file implements the template.

template <typename Record>
auto NamedStore<Record>::Commit(const Pointer& record,
                                const NameBinding& binding)
    -> absl::StatusOr<Pointer> {
  Pointer replaced;  // released after the lock
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(CheckBinding(binding, record->id));
  RETURN_IF_ERROR(CheckCounts(binding, record->id));
  ASSIGN_OR_RETURN(ByteReservation reservation, ReserveName(binding.name));
  Entry* const entry = Add(record);
  replaced = Bind(binding.name, std::move(reservation), entry);
  Changed();
  return entry->record;
}

template <typename Record>
auto NamedStore<Record>::BindIfHeld(absl::string_view id,
                                    const NameBinding& binding)
    -> absl::StatusOr<Pointer> {
  Pointer replaced;  // released after the lock
  MutexLock lock(&mutex_);
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return nullptr;
  Entry* const entry = found->second.get();
  RETURN_IF_ERROR(CheckBinding(binding, id));
  RETURN_IF_ERROR(CheckCounts(binding, id));
  ASSIGN_OR_RETURN(ByteReservation reservation, ReserveName(binding.name));
  replaced = Bind(binding.name, std::move(reservation), entry);
  Changed();
  return entry->record;
}

template <typename Record>
ListPage<Record> NamedStore<Record>::List(absl::string_view after,
                                          int64_t max_records) const {
  ListPage<Record> page;
  MutexLock lock(&mutex_);
  auto next = list_.upper_bound(after);
  for (; next != list_.end() && max_records > 0; ++next, --max_records) {
    page.entries.push_back({Describe(*next->second, ""), next->first});
  }
  page.is_last = next == list_.end();
  return page;
}

template <typename Record>
absl::StatusOr<bool> NamedStore<Record>::Unload(absl::string_view name_or_id,
                                                absl::string_view if_match) {
  RETURN_IF_ERROR(ValidateIfMatch(if_match));
  Pointer dropped;  // released after the lock
  MutexLock lock(&mutex_);
  Entry* const entry = FindEntry(name_or_id);
  if (entry == nullptr) return UnknownRecord(options_.noun, name_or_id);
  const std::string& id = entry->record->id;
  if (!if_match.empty() && !absl::EqualsIgnoreCase(if_match, id)) {
    return NotMatched(options_.noun, name_or_id, id, if_match);
  }
  const auto name = by_name_.find(name_or_id);
  if (name != by_name_.end()) {
    dropped = RemoveName(name->first, entry);
    by_name_.erase(name);
  } else {
    dropped = Drop(entry);
  }
  Changed();
  return dropped != nullptr;
}

template <typename Record>
NamedRecord<Record> NamedStore<Record>::Describe(const Entry& entry,
                                                 absl::string_view after) {
  NamedRecord<Record> described{entry.record, {}, 0};
  described.name_count = static_cast<int64_t>(entry.names.size());
  for (auto name = entry.names.upper_bound(after);
       name != entry.names.end() && described.names.size() < kMaxListedNames;
       ++name) {
    described.names.emplace_back(*name);
  }
  return described;
}

template <typename Record>
auto NamedStore<Record>::FindEntry(absl::string_view name_or_id) const
    -> Entry* {
  const auto name = by_name_.find(name_or_id);
  if (name != by_name_.end()) return name->second.entry;
  if (!LooksLikeId(name_or_id)) return nullptr;
  const auto found = by_id_.find(absl::AsciiStrToLower(name_or_id));
  return found == by_id_.end() ? nullptr : found->second.get();
}

template <typename Record>
absl::Status NamedStore<Record>::CheckBinding(const NameBinding& binding,
                                              absl::string_view id) const {
  const auto bound = by_name_.find(binding.name);
  const std::string bound_id =
      bound == by_name_.end() ? "" : bound->second.entry->record->id;
  if (!bound_id.empty() && bound_id == id) return absl::OkStatus();
  if (binding.create_only && !bound_id.empty()) {
    return AlreadyBound(options_.noun, binding.name, bound_id);
  }
  if (!binding.if_match.empty() &&
      !absl::EqualsIgnoreCase(binding.if_match, bound_id)) {
    return NotMatched(options_.noun, binding.name, bound_id, binding.if_match);
  }
  return absl::OkStatus();
}

template <typename Record>
absl::Status NamedStore<Record>::CheckCounts(const NameBinding& binding,
                                             absl::string_view id) const {
  const auto is_full = [](size_t count, int64_t limit) {
    return static_cast<int64_t>(count) >= limit;
  };
  const auto bound = by_name_.find(binding.name);
  const bool is_new_name = !binding.name.empty() && bound == by_name_.end();
  if (is_new_name && is_full(by_name_.size(), options_.max_names)) {
    return TooMany("names", options_.max_names, options_.names_flag);
  }
  // A record that loses its last name by the binding makes room for another.
  const bool replaces =
      bound != by_name_.end() && bound->second.entry->names.size() == 1;
  if (by_id_.find(id) == by_id_.end() && !replaces &&
      is_full(by_id_.size(), options_.max_records)) {
    return TooMany(options_.plural, options_.max_records,
                   options_.records_flag);
  }
  return absl::OkStatus();
}

template <typename Record>
auto NamedStore<Record>::Add(Pointer record) -> Entry* {
  std::unique_ptr<Entry>& entry = by_id_[record->id];
  if (entry != nullptr) return entry.get();
  entry = std::make_unique<Entry>();
  entry->record = std::move(record);
  entry->listed =
      list_.emplace(PlaceOf(entry->record->id, {}), entry.get()).first;
  return entry.get();
}

template <typename Record>
auto NamedStore<Record>::Bind(const std::string& name,
                              ByteReservation reservation, Entry* entry)
    -> Pointer {
  if (name.empty()) return nullptr;
  const auto [bound, is_new] = by_name_.try_emplace(name);
  if (is_new) bound->second.reservation = std::move(reservation);
  Entry* const previous = std::exchange(bound->second.entry, entry);
  if (previous == entry) return nullptr;
  // First, as both might have the name's place in the list.
  Pointer dropped;
  if (previous != nullptr) dropped = RemoveName(bound->first, previous);
  entry->names.insert(bound->first);
  Relist(entry);
  return dropped;
}

template <typename Record>
auto NamedStore<Record>::RemoveName(absl::string_view name, Entry* entry)
    -> Pointer {
  entry->names.erase(name);
  if (entry->names.empty()) return Drop(entry);
  Relist(entry);
  return nullptr;
}

template <typename Record>
auto NamedStore<Record>::Drop(Entry* entry) -> Pointer {
  for (const absl::string_view name : entry->names) {
    by_name_.erase(by_name_.find(name));
  }
  list_.erase(entry->listed);
  const Pointer dropped = entry->record;
  by_id_.erase(dropped->id);
  return dropped;
}

template <typename Record>
void NamedStore<Record>::Relist(Entry* entry) {
  std::string place = PlaceOf(entry->record->id, entry->names);
  if (place == entry->listed->first) return;
  list_.erase(entry->listed);
  entry->listed = list_.emplace(std::move(place), entry).first;
}

}  // namespace qgemm

#endif  // QGEMM_SERVER_WEIGHTS_NAMED_STORE_H_
